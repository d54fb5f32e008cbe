"""The field's words: phrases that names, docstrings and comments of the package do not use."""

import ast
import io
import re
import tokenize

import pytest

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


@pytest.mark.parametrize("path", PATHS)
def test_names_docstrings_and_comments_use_the_words_of_the_field(path):
    found = [
        f"{path}:{line}: {match.group()!r}; write: {instead}"
        for line, text in names_and_prose(path)
        for banned, instead in BANNED.items()
        for match in re.finditer(banned, text)
    ]
    assert not found


def test_the_words_are_looked_for_in_the_installed_package():
    assert len(PATHS) > 100
    assert (ROOT / "__init__.py").samefile(treepurify.__file__)
