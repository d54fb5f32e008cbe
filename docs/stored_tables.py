"""A directive that shows a stored table: ``{stored-table} name`` reads ``results/name.json``."""

from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

from examples.reproduction import as_markdown

RESULTS = Path(__file__).resolve().parent / "reproductions" / "results"


class StoredTable(Directive):
    """Shows one stored table with its picture, its notes and its origin."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the table."""
        path = RESULTS / f"{self.arguments[0]}.json"
        self.state.document.settings.env.note_dependency(str(path))
        content = StringList(as_markdown(path).splitlines(), source=str(path))
        found = nodes.container()
        self.state.nested_parse(content, self.content_offset, found)
        return found.children


def setup(app: Any) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("stored-table", StoredTable)
    return {"parallel_read_safe": True}
