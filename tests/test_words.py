"""The field's words: phrases that names, docstrings and comments of the package do not use."""

import ast
import io
import re
import tokenize

import treepurify
from tests.test_architecture import PATHS, ROOT

# Each with the word that the field has for it.
BANNED = {
    r"foretell\w*": "predict; leave-one-out likelihood",
    r"\brooms?\b|_room\b|\broom_": "workspace",
    r"work space": "workspace",
    r"\bmet_values\b|\bMetValues\b|\bmerge_met\b": "observed range",
    r"\bis_much\b": "use_kernel",
    r"\btells? (?:\w+ ){0,3}apart\b": "distinguish",
    r"\bkept apart\b": "reported separately; a component",
    r"\bbeside\b(?!_rows)": "next to, compared with, and",
    r"\bso many\b": "the number of",
    r"\bStreamTask\b|\bstreamed_\w+": "rows in batches take the path of a table",
}

# Phrases of sentences that users see, each with a plain one in its place.
BANNED_IN_STRINGS = {
    r"\bholds? (?:an?|the|no|what|zero|NaN|one|numbers)\b": "contains, includes",
    r"\bmeasure(?:: |d under)|\b(?:the|other|each|this) measure\b": "distribution",
    r"\bcomponents? (?:of|given|add|up|are|is)\b(?! a function)": "effect",
    r"\bgiven fewer of (?:its|their)\b": "smaller effects left inside larger ones",
    r"\bdirections? of effects\b|\bunidentified directions\b": "what the data cannot separate",
    r"\b(?:those|parts|fits) of least norm\b": "the smallest solution",
    r"\blooked for\b": "checked",
    r"\bhardly one\b": "not a real interaction",
    r"\bno effect shows\b": "the remainder contains the rest",
    r"\blays? over\b": "overlay",
    r"\btook over\b": "were adjusted to compensate",
    r"\bto begin with\b": "starts from",
    r"\bweighing cells\b|\blisting splits\b|\babsorb others\b": "the step, as a reader knows it",
    r"\bis none of\b": "must be one of",
    r"\bis no (?:function|mean|sum|feature|name|row|combination|Parquet)\b": "is not a",
    r"\bknows (?:no|its)\b": "has",
    r"\bsquare sum\b": "a size in the units of the prediction",
    r"\bof larger size\b": "relative difference",
    r"[\d_] %(?!\w)": "no space before a percent sign",
}

# Phrases of pages and examples, each with a plain one in its place.
BANNED_ON_PAGES = {
    **BANNED,
    r"\bstands? (?:behind|below|above|beside|next to|in for|in its place)\b": "is, are; replaces",
    r"\b(?:is|are) no (?:sums?|means?|functions?|intervals?|trees?|tables?|names?)\b": "is not a",
    r"\btak(?:e|es|ing) over what\b": "adjusted to compensate",
    r"\bin its place\b|\bcan(?:not)? be had\b": "instead; is not available",
    r"\d %(?!\w)": "no space before a percent sign",
}


def names_and_prose(path):
    """Yield the line and the text of each name, docstring and comment of a file."""
    source = (ROOT / path).read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            said = ast.get_docstring(node, clean=False)
            if said is not None:
                yield node.body[0].lineno, said
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.NAME, tokenize.COMMENT):
            yield token.start[0], token.string


def sentences(path):
    """Yield the line and the text of each string of a file but its docstrings.

    Adjacent strings are one; what an f-string fills in is left out.
    """
    nodes = list(ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))))
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if id(node) in parts | prose:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            texts = (getattr(part, "value", "") for part in node.values)
            yield node.lineno, "".join(text if isinstance(text, str) else "_" for text in texts)


def test_sentences_that_users_see_are_plain():
    found = [
        f"{path}:{line}: {match.group()!r}; write: {instead}"
        for path in PATHS
        for line, text in sentences(path)
        for banned, instead in {**BANNED, **BANNED_IN_STRINGS}.items()
        for match in re.finditer(banned, text, re.IGNORECASE)
    ]
    assert not found, "\n".join(found)


def test_names_docstrings_and_comments_use_the_words_of_the_field():
    found = [
        f"{path}:{line}: {match.group()!r}; write: {instead}"
        for path in PATHS
        for line, text in names_and_prose(path)
        for banned, instead in BANNED.items()
        for match in re.finditer(banned, text)
    ]
    assert not found, "\n".join(found)


PROJECT = ROOT.parent
PAGES = [
    PROJECT / "README.md",
    *(page for page in PROJECT.glob("docs/**/*.md") if "_build" not in page.parts),
    *PROJECT.glob("examples/*/plot_*.py"),
]


def test_pages_use_plain_words():
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
        prose = re.sub(r"`[^`]*`", "", text)
        found += [
            f"{page.name}: {match.group()!r}; write: {instead}"
            for banned, instead in BANNED_ON_PAGES.items()
            for match in re.finditer(banned, prose, re.IGNORECASE)
        ]
    assert not found, "\n".join(found)


def test_the_words_are_looked_for_in_the_installed_package():
    assert len(PATHS) > 100
    assert (ROOT / "__init__.py").samefile(treepurify.__file__)
