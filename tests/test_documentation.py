"""The Python code in the README and on the pages runs as it is printed."""

import ast
import builtins
import doctest
import inspect
import re
from importlib.metadata import version
from pathlib import Path

import pytest

import treepurify as tp
from tests.percentages import (
    CONSTANTS,
    percentages_without_a_source,
    quoted_percentages,
    run_and_show,
)
from treepurify import results

ROOT = Path(__file__).resolve().parents[1]
# The modules whose names are public.
ROOMS = [room for name in tp.__all__ if inspect.ismodule(room := getattr(tp, name))]
ROOMS.append(results)
# What the code of a page uses beside treepurify and scikit-learn.
NEEDS = {
    "README.md": ("xgboost", "matplotlib"),
    "docs/auditing.md": ("xgboost", "matplotlib"),
    "docs/catboost.md": ("catboost", "matplotlib"),
    "docs/categorical.md": ("xgboost", "matplotlib"),
    "docs/choosing.md": ("xgboost", "matplotlib"),
    "docs/coming_from.md": ("xgboost", "interpret", "shap", "matplotlib"),
    "docs/comparing.md": ("xgboost", "lightgbm", "matplotlib"),
    "docs/continuous.md": ("matplotlib",),
    "docs/deep.md": ("xgboost", "matplotlib"),
    "docs/exporting.md": (
        "matplotlib",
        "interpret",
        "shap",
        "duckdb",
        "plotly",
    ),
    "docs/extending.md": (),
    "docs/getting_started.md": ("xgboost", "matplotlib"),
    "docs/index.md": ("xgboost", "matplotlib"),
    "docs/model_formats.md": ("xgboost",),
    "docs/monotonicity.md": ("xgboost", "matplotlib"),
    "docs/partial_dependence.md": ("xgboost", "matplotlib"),
    "docs/pipelines.md": ("xgboost", "matplotlib"),
    "docs/reason_codes.md": ("xgboost", "matplotlib"),
    "docs/shapley.md": ("xgboost", "matplotlib"),
    "docs/streams.md": ("xgboost", "matplotlib", "pyarrow", "dask.dataframe"),
    "docs/uncertainty.md": ("matplotlib",),
    "docs/validating.md": ("xgboost", "matplotlib"),
    "docs/worth.md": ("xgboost", "matplotlib"),
}

# Older ones train models whose percentages differ a little from those on the pages.
OLDEST_XGBOOST = 3


def code_of(page):
    """Return the code of a page: blocks that are shown, and cells that the build runs."""
    text = (ROOT / page).read_text(encoding="utf-8")
    block = r"^```(?:python|\{code-cell\} ipython3)\n(?::tags:[^\n]*\n)?(.*?)^```"
    return re.findall(block, text, flags=re.DOTALL | re.MULTILINE)


def test_every_page_with_code_is_run():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    names = {str(page.relative_to(ROOT)) for page in pages if "_build" not in page.parts}
    assert {name for name in names if code_of(name)} == set(NEEDS)


@pytest.mark.docs
@pytest.mark.parametrize("page", NEEDS)
def test_printed_code_runs(page, tmp_path, monkeypatch):
    for module in NEEDS[page]:
        pytest.importorskip(module, reason=f"the page {page} uses it")
    monkeypatch.chdir(tmp_path)
    output = run_and_show(code_of(page), page)
    if "xgboost" not in NEEDS[page] or _major(version("xgboost")) >= OLDEST_XGBOOST:
        text = (ROOT / page).read_text(encoding="utf-8")
        assert percentages_without_a_source(page, text, output) == set()


def _major(release):
    return int(release.partition(".")[0])


PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if not {"_build", "gallery"} & set(page.parts)
)


# Developers' pages are the record of what was measured; the summary is compared with them.
@pytest.mark.parametrize(
    "page",
    [
        page
        for page in PAGES
        if page not in NEEDS and page != "docs/measured.md" and "/developers" not in page
    ],
)
def test_pages_without_code_quote_percentages_of_their_tables(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert percentages_without_a_source(page, text, "") == set()


def test_percentages_with_a_reason_are_quoted():
    for page, reasons in CONSTANTS.items():
        assert set(reasons) <= quoted_percentages((ROOT / page).read_text(encoding="utf-8")), page


def test_a_percentage_without_a_source_would_be_found():
    page, output = "docs/a.md", "a 0.594\nb 82.6%"
    assert percentages_without_a_source(page, "59%, 59.4% and 83%", output) == set()
    assert percentages_without_a_source(page, "58% and 59.5 to 82%", output) == {
        "58",
        "59.5",
        "82",
    }


def anchors(page):
    """Return the anchors of the headings of a page, as MyST and GitHub name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.strip().replace(" ", "-") for heading in plain}


def test_pages_link_to_what_is_there():
    missing = []
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text):
            name, _, anchor = target.partition("#")
            to = page.parent / name if name else page
            if "://" in target or name.startswith("gallery/"):
                continue
            if not to.exists() or (anchor and anchor not in anchors(to)):
                missing.append(f"{page.relative_to(ROOT)} links to {target}")
    assert not missing, "\n".join(missing)


COMMENT = re.compile(r"\s*%(\s|$)")
NUMBER = re.compile(r"\s*\d+[.)]\s")
# A line after which a list may begin or go on: an item or more of it, nothing, a table, a heading.
LIST_MAY_FOLLOW = re.compile(r"\s|$|[*+-]\s|\d+[.)]\s|\||#")


def lines_that_markdown_misreads(text):
    """Return lines of prose that begin with a percent sign, or with the number of a list item.

    MyST leaves out a line that begins with a percent sign, as a comment. A number with a full stop
    or a bracket begins a list there, although the sentence began on the line before.
    """
    found, fence, before = [], None, ""
    for line in text.splitlines():
        mark = re.match(r"\s*(```+|~~~+)", line)
        if fence or mark:
            if fence is None:
                fence = mark[1]
            elif line.strip() == fence:
                fence = None
            before = ""
            continue
        if COMMENT.match(line) or (NUMBER.match(line) and not LIST_MAY_FOLLOW.match(before)):
            found.append(line)
        before = line
    return found


@pytest.mark.parametrize("page", PAGES)
def test_no_line_of_prose_begins_as_a_comment_or_a_list(page):
    assert not lines_that_markdown_misreads((ROOT / page).read_text(encoding="utf-8"))


def test_a_line_that_markdown_misreads_would_be_found():
    assert lines_that_markdown_misreads("a share of 0.9\n% instead of 2%") == ["% instead of 2%"]
    assert lines_that_markdown_misreads("main effects (K =\n1) take as long") == ["1) take as long"]
    assert lines_that_markdown_misreads("it was\n2. That is all") == ["2. That is all"]
    listed = "Steps:\n\n1. one\n   and more\n2. two\n\n```\na\n% a comment\n1) a line\n```"
    assert not lines_that_markdown_misreads(listed)


def test_formulas_are_drawn_without_a_script():
    pytest.importorskip("latex2mathml", reason="the documentation writes formulas with it")
    pytest.importorskip("docutils", reason="it comes with Sphinx")
    from docs.formulas import mathml

    found = []
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        prose = re.sub(r"^```.*?^```|`[^`]*`", "", text, flags=re.DOTALL | re.MULTILINE)
        found += re.findall(r"\$\$.+?\$\$|\$[^$]+?\$", prose, flags=re.DOTALL)
    assert len(found) > 100
    for formula in found:
        words = re.sub(r"<[^>]+>", "", mathml(formula.strip("$"), "block"))
        assert "\\" not in words, formula  # a command that the converter does not know


def cells_of(page):
    """Return the cells of a page that run when the documentation is built."""
    return re.findall(r"^```\{code-cell\} ipython3\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


# Pages that run and have nothing to see, with the reason.
WITHOUT_PICTURE: dict[str, str] = {"model_formats.md": "it reads models, and draws nothing"}
DRAWS = re.compile(r"\bplots\.\w+\(|\.savefig\(|\bplt\.|\bpx\.|\.show\(|write_html\(")


def test_every_page_that_runs_has_an_output_and_a_picture():
    pages = {page.name: page.read_text(encoding="utf-8") for page in ROOT.glob("docs/*.md")}
    run = {name: text for name, text in pages.items() if "\nfile_format: mystnb\n" in text[:400]}
    assert "getting_started.md" in run
    for name, text in run.items():
        shown = [cell for cell in cells_of(text) if "remove-output" not in cell]
        assert shown, f"{name} shows no output: no cell of it runs"
        if name not in WITHOUT_PICTURE:
            assert any(DRAWS.search(cell) for cell in shown), f"{name} shows no picture"
    assert set(WITHOUT_PICTURE) <= set(run)


def test_files_that_pages_name_are_there():
    missing = []
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]:
        text = page.read_text(encoding="utf-8")
        names = re.findall(r"\b((?:treepurify|tests|benchmarks|examples|docs)/[\w/]+\.\w+)\b", text)
        missing += [f"{page.name} names {name}" for name in names if not (ROOT / name).exists()]
    # The page on architecture leaves out the folder of the package.
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    for name in re.findall(r"`((?!treepurify|tests|docs)[\w/]+\.(?:py|js))`", page):
        if not (ROOT / "treepurify" / name).exists():
            missing.append(f"architecture.md names {name}")
    assert not missing, "\n".join(missing)


def test_the_reference_lists_every_public_name_once():
    text = (ROOT / "docs" / "api.rst").read_text(encoding="utf-8")
    listed = []
    for module, block in re.findall(
        r"currentmodule:: (\S+)\n(.*?)(?=\n\.\. currentmodule|\Z)", text, re.S
    ):
        listed += [f"{module}.{name}" for name in re.findall(r"^   ([\w.]+)$", block, re.M)]
    modules = {room.__name__ for room in ROOMS}
    public = {f"treepurify.{name}" for name in tp.__all__} - {*modules, "treepurify.__version__"}
    public |= {f"{room.__name__}.{name}" for room in ROOMS for name in room.__all__}
    assert sorted(listed) == sorted(public)


def top_level_functions():
    return {name: f for name in tp.__all__ if inspect.isfunction(f := getattr(tp, name))}


def public_objects():
    """Return the functions and classes of the package and of its namespaces."""
    named = [getattr(space, name) for space in (tp, *ROOMS) for name in space.__all__]
    return [found for found in named if inspect.isfunction(found) or inspect.isclass(found)]


def section(function, title):
    """Return the lines of a section of a docstring, without its heading."""
    said = inspect.getdoc(function) or ""
    found = re.search(
        rf"^{title}\n-+\n(.*?)(?=\n\n\w[^\n]*\n-+\n|\Z)", said, re.DOTALL | re.MULTILINE
    )
    return found[1].splitlines() if found else []


@pytest.mark.parametrize("name", top_level_functions())
def test_functions_name_their_neighbours(name):
    lines = section(top_level_functions()[name], "See Also")
    assert lines, f"the docstring of {name} has no section See Also"
    for line in lines:
        found = tp
        for part in line.split(" : ")[0].removeprefix("treepurify.").split("."):
            found = getattr(found, part)
        assert found is not getattr(tp, name), f"{name} names itself"


def test_classes_and_functions_of_modules_name_their_neighbours():
    public = [getattr(room, name) for room in ROOMS for name in room.__all__]
    public += [found for name in tp.__all__ if inspect.isclass(found := getattr(tp, name))]
    alone = [
        found.__name__
        for found in public
        if not (inspect.isclass(found) and issubclass(found, Exception))
        and not section(found, "See Also")
    ]
    assert not alone


def test_examples_of_public_names_import_what_they_use():
    missing = {}
    for found in public_objects():
        for one in [found, *vars(found).values()] if inspect.isclass(found) else [found]:
            used = names_without_import(inspect.getdoc(one) or "")
            if used:
                missing[found.__name__] = used
    assert missing == {}


def names_without_import(text):
    """Return the names that an example reads and neither imports nor makes."""
    tree = ast.parse(
        "".join(example.source for example in doctest.DocTestParser().get_examples(text))
    )
    nodes = list(ast.walk(tree))
    uses = [node for node in nodes if isinstance(node, ast.Name)]
    read = {node.id for node in uses if isinstance(node.ctx, ast.Load)}
    made = {node.id for node in uses if isinstance(node.ctx, ast.Store)}
    made |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    made |= {getattr(node, "name", "") or "" for node in nodes}
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            made |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
    return sorted(read - made - set(dir(builtins)))


# These return no numbers, or what was saved.
WITHOUT_SCALE = {"load", "refit", "warmup"}
SCALE = re.compile(r"\b(margins?|scale|units?|response|log-odds)\b")


@pytest.mark.parametrize("name", sorted(set(top_level_functions()) - WITHOUT_SCALE))
def test_functions_say_on_which_scale_they_return_numbers(name):
    function = top_level_functions()[name]
    returned = " ".join(section(function, "Returns"))
    assert SCALE.search(returned) or SCALE.search(inspect.getdoc(function).split("\n\n")[0]), name


def test_first_lines_are_one_line():
    for public in public_objects():
        first = (inspect.getdoc(public) or "").split("\n\n")[0]
        assert re.fullmatch(r"[^\n]+\.", first), f"{public.__name__}: {first}"
