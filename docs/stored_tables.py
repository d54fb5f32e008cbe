"""What pages show of the stored tables of the reproductions.

``{stored-table} name`` shows ``results/name.json`` with its verdict, ``{verdicts}`` counts all
verdicts, and the role ``{stored}`` quotes one cell, ``table | label | setting | column``.
"""

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

from examples.reproduction import as_markdown, origin, stored_cell
from examples.reproduction_verdicts import in_words, summary

RESULTS = Path(__file__).resolve().parent / "reproductions" / "results"


class StoredTable(Directive):
    """Shows one stored table with its verdict, its picture, its notes and, if new, its origin."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the table."""
        name = self.arguments[0]
        path = RESULTS / f"{name}.json"
        self.state.document.settings.env.note_dependency(str(path))
        stored = json.loads(path.read_text(encoding="utf-8"))
        # The command, the date and the versions are shown once for tables that share them.
        seen = self.state.document.settings.env.temp_data
        is_new = seen.get("stored origin") != origin(stored)
        seen["stored origin"] = origin(stored)
        text = as_markdown(stored, in_words(name, stored), with_origin=is_new)
        return _parsed(self, text, str(path))


class Verdicts(Directive):
    """Says how many of the stored tables are reproduced, differ or are open."""

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the sentence."""
        for path in RESULTS.glob("*.json"):
            self.state.document.settings.env.note_dependency(str(path))
        return _parsed(self, summary(RESULTS), str(RESULTS))


def stored(
    _role: str, _raw: str, reference: str, *_unused: Any, **_options: Any
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """Return the nodes of a quoted cell."""
    return [nodes.Text(stored_cell(RESULTS, reference))], []


def _parsed(directive: Directive, text: str, source: str) -> list[nodes.Node]:
    found = nodes.container()
    lines = StringList(text.splitlines(), source=source)
    directive.state.nested_parse(lines, directive.content_offset, found)
    return found.children


def setup(app: Any) -> dict[str, bool]:
    """Register the directives and the role."""
    app.add_directive("stored-table", StoredTable)
    app.add_directive("verdicts", Verdicts)
    app.add_role("stored", stored)
    return {"parallel_read_safe": True}
