"""Sphinx settings. The build needs no network and loads what it documents from the checkout."""

import os
import sys
import tomllib
from pathlib import Path

from sphinx_gallery.sorting import ExplicitOrder

# With a backend that is set, pages that run code would have no pictures.
os.environ.pop("MPLBACKEND", None)
DOCS = Path(__file__).resolve().parent
PROJECT = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
sys.path[:0] = [str(DOCS.parent), str(DOCS)]

project = "treepurify"
author = "treepurify developers"
copyright = "2026, treepurify developers"
release = version = PROJECT["version"]

extensions = [
    "alternative_texts",  # in this folder, as are formulas and stored_tables
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "formulas",
    "sphinx.ext.viewcode",
    "myst_nb",  # pages run their code, and show what it prints and draws
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "stored_tables",  # the tables of the reproductions
]
exclude_patterns = [
    "_build",
    "_templates",
    "gallery/**/*.ipynb",  # pages of the gallery as notebooks, to download: not pages of their own
]
templates_path = ["_templates"]
suppress_warnings = [
    "config.cache",  # the gallery's settings hold classes, which Sphinx cannot store
]

html_theme = "furo"
html_title = f"treepurify {release}"
html_static_path = ["_static"]
html_css_files = ["outputs.css"]

# The reference lists what `__all__` lists, and nothing else.
autosummary_generate = True
autosummary_ignore_module_all = False
autosummary_imported_members = True
autodoc_typehints = "none"  # numpydoc's own sections say more than the annotations
numpydoc_show_class_members = False

# Pages with `file_format: mystnb` at their head are run. A cache goes by the code of a page only,
# and would keep outputs of an older package.
nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_output_stderr = "remove"
nb_merge_streams = True

myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3

sphinx_gallery_conf = {
    "examples_dirs": str(DOCS.parent / "examples"),
    "gallery_dirs": "gallery",
    # These scripts are run and shown; the others are run by hand.
    "filename_pattern": "/plot_",
    "ignore_pattern": r"^(?!plot_)",  # matched against the bare file name
    "subsection_order": ExplicitOrder(
        [f"../examples/{name}" for name in ("explain", "audit", "compare")]
    ),
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
}
