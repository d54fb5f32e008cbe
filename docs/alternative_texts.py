"""A text for each figure of a page, for readers who hear the page: the call that drew it."""

from typing import Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

_TRAILING = ";"  # keeps a notebook from printing what a plot returns


class AlternativeTexts(SphinxPostTransform):
    """Give figures of code cells a text; theirs would be the name of a file."""

    default_priority = 400  # after the output of a cell is chosen

    def run(self, **_: Any) -> None:
        """Go through the cells of a page."""
        for cell in self.document.findall(nodes.container):
            if "cell" not in cell["classes"]:
                continue
            code = next((block.astext() for block in cell.findall(nodes.literal_block)), "")
            call = code.strip().rpartition("\n")[2].rstrip(_TRAILING)
            for image in cell.findall(nodes.image):
                image.setdefault("alt", f"Figure drawn by {call}" if call else "Figure")


def setup(app: Any) -> dict[str, bool]:
    """Register the transform."""
    app.add_post_transform(AlternativeTexts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
