"""A release states one version, one licence and one list of requirements everywhere."""

import re
import tomllib
from pathlib import Path

import treepurify as tp

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CITATION = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
RECIPE = (ROOT / "docs/conda/meta.yaml").read_text(encoding="utf-8")


def test_every_file_has_the_version():
    version = PROJECT["project"]["version"]
    assert tp.__version__ == version
    assert re.findall(r"^version: (.*)$", CITATION, re.M) == [version]
    assert re.findall(r'set version = "(.*)"', RECIPE) == [version]
    assert f"\n## {version} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_file_has_the_licence_and_the_description():
    project = PROJECT["project"]
    assert re.findall(r"^  license: (.*)$", RECIPE, re.M) == [project["license"]]
    assert re.findall(r"^  summary: (.*)$", RECIPE, re.M) == [project["description"]]
    assert re.findall(r"^license: (.*)$", CITATION, re.M) == project["license"].split(" AND ")[:1]


def test_the_recipe_requires_what_the_package_requires():
    run = RECIPE.split("  run:\n")[1].split("  run_constrained:\n")[0]
    required = {re.sub(" ", "", line) for line in re.findall(r"^    - (.*)$", run, re.M)}
    python = PROJECT["project"]["requires-python"]
    assert f'set python_min = "{python.removeprefix(">=")}"' in RECIPE
    assert required == {*PROJECT["project"]["dependencies"], "python>={{python_min}}"}
    constrained = RECIPE.split("  run_constrained:\n")[1].split("\ntest:")[0]
    allowed = {
        need for needs in PROJECT["project"]["optional-dependencies"].values() for need in needs
    }
    for line in re.findall(r"^    - (.*)$", constrained, re.M):
        assert line.replace(" ", "").replace("-base", "") in allowed
