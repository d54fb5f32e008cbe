"""Draw the pictures of the architecture page: ``python docs/architecture_picture.py``.

Text stands dark on the pale ground of its box, or in a middle grey, so that the pictures can be
read in a light and in a dark theme. ``tests/test_architecture.py`` compares the order of the rooms
with what they may import.
"""

from html import escape
from pathlib import Path
from typing import NamedTuple

STATIC = Path(__file__).parent / "_static"

FONT = "font-family: system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
GREY = "#808890"
DARK = "#1f2933"
# Pale grounds, and the edges that go with them.
BLUE = ("#dbe9f6", "#5b8db8")
GREEN = ("#dff0df", "#6aa06a")
YELLOW = ("#fbf0d0", "#c19f3e")
RED = ("#f8dedb", "#c07a72")
PLAIN = ("#e9ecef", "#8b949c")

GAP = 10
# Of bold letters, as a share of their height.
_WIDTH_OF_A_LETTER = 0.64


class Room(NamedTuple):
    """A box: the name of a folder or file of the package, and what it is for."""

    name: str
    lines: tuple[str, ...]
    colours: tuple[str, str] = BLUE


class Floor(NamedTuple):
    """A row of the picture: what its rooms have in common, and what it hands to the next row."""

    title: tuple[str, ...]
    rooms: tuple[Room, ...]
    hands_on: str = ""


FLOORS = (
    Floor(
        ("foundation",),
        (
            Room("_kernels", ("loops over arrays, compiled by Numba",), PLAIN),
            Room("base", ("arguments, errors, memory, progress, threads",), PLAIN),
        ),
    ),
    Floor(
        ("inputs",),
        (
            Room("rows", ("tables, weights and", "samples of rows")),
            Room("models", ("one reader per library,", "one form of model")),
            Room("grids", ("the cells that a model", "distinguishes")),
        ),
        "Model, Columns, Grid",
    ),
    Floor(
        ("tables of cells",),
        (
            Room("weights", ("the distribution: the mass of each cell",)),
            Room("effects", ("a model as one table per set of features",)),
        ),
        "masses and effects",
    ),
    Floor(
        ("the mathematics,", "the result"),
        (
            Room("purification", ("makes tables orthogonal,", "with bounds of the error")),
            Room("decomposition", ("intercept, components,", "remainder, certificate"), YELLOW),
        ),
    ),
    Floor(
        ("from a model", "to its effects"),
        (Room("engines", ("one folder per engine; finish makes the decomposition of each",)),),
        "Decomposition",
    ),
    Floor(
        ("methods of", "a result"),
        (
            Room("frames", ("effects as tables",), YELLOW),
            Room("verification", ("check the sum",), YELLOW),
            Room("shapley", ("Shapley values",), YELLOW),
            Room("storage", ("save and load",), YELLOW),
            Room("row_values", ("written in batches",), YELLOW),
        ),
    ),
    Floor(
        ("questions about", "a model"),
        (
            Room("interactions", ("indices,", "H-statistics"), GREEN),
            Room("grouping", ("Shapley Sets",), GREEN),
            Room("comparing", ("two results,", "side by side"), GREEN),
            Room("profiles", ("one feature,", "as observed"), GREEN),
            Room("evidence", ("trainings,", "worth"), GREEN),
            Room("auditing", ("ranked", "findings"), GREEN),
            Room("validation", ("gaps, drift,", "reasons"), GREEN),
        ),
    ),
    Floor(
        ("outputs",),
        (
            Room("plots", ("figures, by matplotlib",), RED),
            Room("report", ("one HTML page",), RED),
            Room("export", ("EBM, SQL, shap",), RED),
        ),
    ),
    Floor(
        ("entry points",),
        (
            Room("__init__", ("public names",), PLAIN),
            Room("options", ("more of them",), PLAIN),
            Room("results", ("more of them",), PLAIN),
            Room("demo", ("data, models",), PLAIN),
            Room("precompiling", ("warmup",), PLAIN),
            Room("cli", ("the commands",), PLAIN),
        ),
    ),
)
FILES = {
    *("frames", "verification", "row_values", "decomposition"),
    *("precompiling", "__init__", "options", "results"),
}
ENGINES = ("common", "tree", "partial_dependence", "ale", "hooker", "categorical", "legendre")


def reading_order() -> list[str]:
    """Return the rooms from the top to the bottom, and from left to right."""
    return [room.name for floor in FLOORS for room in floor.rooms]


def draw_rooms() -> str:
    """Return the picture of the rooms."""
    left, right, height, gap = 132, 756, 58, 34
    parts, top = [], 8
    for position, floor in enumerate(FLOORS):
        is_tall = floor.rooms[0].name == "engines"
        own_height = height + 34 if is_tall else height
        middle = top + own_height / 2
        parts += _lines(0, middle, floor.title, "start", GREY, 13)
        # Where rooms are many, walls are thin and names small.
        is_full = len(floor.rooms) > 5
        between, size = (GAP / 2, 12.5) if is_full else (GAP, 14)
        width = (right - left - between * (len(floor.rooms) - 1)) / len(floor.rooms)
        for number, room in enumerate(floor.rooms):
            x = left + number * (width + between)
            name = {"base": "base: files of the top level"}.get(room.name, _shown(room.name))
            parts += _box(x, top, width, own_height, room.colours)
            first = top + 22 if len(room.lines) == 1 else top + 17
            fitting = min(size, round((width - 10) / (_WIDTH_OF_A_LETTER * len(name)), 1))
            parts.append(_text(x + width / 2, first, name, "middle", DARK, fitting, bold=True))
            for line, text in enumerate(room.lines):
                parts.append(_text(x + width / 2, first + 18 + 15 * line, text, "middle", DARK, 12))
        if is_tall:
            parts += _engines(left + 8, right - 8, top + 50)
        top += own_height
        if position < len(FLOORS) - 1:
            centre = (left + right) / 2
            parts += _arrow(centre, top + 4, centre, top + gap - 4)
            parts.append(_text(centre + 12, top + 21, floor.hands_on, "start", GREY, 12))
            top += gap
    title = "The subpackages of treepurify, in the order in which they may import each other"
    return _svg(760, top + 8, parts, title)


def _engines(left: float, right: float, top: float) -> list[str]:
    letters = [max(len(name), 6) + 3 for name in ENGINES]
    free = right - left - 6 * (len(ENGINES) - 1)
    parts, x = [], left
    for name, share in zip(ENGINES, letters, strict=True):
        width = free * share / sum(letters)
        colours = YELLOW if name == "common" else ("#ffffff", BLUE[1])
        parts += _box(x, top, width, 32, colours)
        parts.append(_text(x + width / 2, top + 20, name, "middle", DARK, 12))
        x += width + 6
    return parts


def draw_flow() -> str:
    """Return the picture of what one call of ``purify`` passes through."""
    height, middle = 220, 120
    columns = (
        (0, 78, (("model", PLAIN), ("X, weights", PLAIN))),
        (104, 122, (("read_model_rows", BLUE), ("weigh", BLUE), ("choose_route", BLUE))),
        (252, 78, (("Problem", YELLOW),)),
        (
            356,
            142,
            (
                ("on the grid", BLUE),
                ("in closed form", BLUE),
                ("tree by tree", BLUE),
                ("on coarse cells", BLUE),
            ),
        ),
        (524, 66, (("Result", YELLOW),)),
        (616, 52, (("finish", BLUE),)),
        (694, 108, (("Decomposition", YELLOW),)),
    )
    parts = []
    for number, (x, width, boxes) in enumerate(columns):
        step = 48
        first = middle - step * (len(boxes) - 1) / 2
        for position, (name, colours) in enumerate(boxes):
            centre = first + step * position
            parts += _box(x, centre - 18, width, 36, colours)
            parts.append(_text(x + width / 2, centre + 4, name, "middle", DARK, 13))
        if number:
            before = columns[number - 1]
            parts += _arrow(before[0] + before[1] + 4, middle, x - 4, middle)
    parts.append(_text(427, 16, "one of four routes", "middle", GREY, 12))
    parts.append(_text(165, 16, "read and check", "middle", GREY, 12))
    return _svg(806, height, parts, "What one call of purify passes through")


def _shown(name: str) -> str:
    return f"{name}.py" if name in FILES else name


def _box(x: float, y: float, width: float, height: float, colours: tuple[str, str]) -> list[str]:
    ground, edge = colours
    return [
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="6" '
        f'fill="{ground}" stroke="{edge}" stroke-width="1.2"/>'
    ]


def _text(
    x: float, y: float, text: str, anchor: str, colour: str, size: float, *, bold: bool = False
) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" '
        f'font-size="{size}"{weight}>{escape(text)}</text>'
    )


def _lines(
    x: float, middle: float, lines: tuple[str, ...], anchor: str, colour: str, size: float
) -> list[str]:
    first = middle + 5 - 8 * (len(lines) - 1)
    return [
        _text(x, first + 16 * number, line, anchor, colour, size)
        for number, line in enumerate(lines)
    ]


def _arrow(x: float, y: float, to_x: float, to_y: float) -> list[str]:
    return [
        f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{GREY}" '
        f'stroke-width="2" marker-end="url(#tip)"/>'
    ]


def _svg(width: float, height: float, parts: list[str], title: str) -> str:
    tip = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="5" '
        f'markerHeight="5" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{GREY}"/></marker></defs>'
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-1 -1 {width + 2:g} {height + 2:g}" '
        f'width="{width + 2:g}" height="{height + 2:g}" role="img" style="{FONT}">'
    )
    return "\n".join([head, f"<title>{escape(title)}</title>", tip, *parts, "</svg>", ""])


def main() -> None:
    """Write both pictures to ``docs/_static``."""
    for name, picture in pictures().items():
        (STATIC / name).write_text(picture, encoding="utf-8")


def pictures() -> dict[str, str]:
    """Return the pictures by the names of their files."""
    return {"architecture_rooms.svg": draw_rooms(), "architecture_flow.svg": draw_flow()}


if __name__ == "__main__":
    main()
