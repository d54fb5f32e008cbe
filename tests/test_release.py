"""A release states one version, one licence and one list of requirements everywhere."""

import re
import tomllib
from importlib import import_module
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


# conda-forge has the library alone under this name.
NAMES = {"matplotlib": "matplotlib-base"}


def recipe_needs(section, following):
    """Return the requirements of a section of the recipe, as pyproject.toml writes them."""
    listed = RECIPE.split(f"  {section}:\n")[1].split(following)[0]
    return {line.replace(" ", "") for line in re.findall(r"^    - (.*)$", listed, re.M)}


def optional_needs():
    """Return what the extra `all` installs, by its names on conda-forge."""
    extras = PROJECT["project"]["optional-dependencies"]
    (whole,) = extras["all"]
    names = whole.removeprefix("treepurify[").removesuffix("]").split(",")
    split = [re.split("(>=)", need) for name in names for need in extras[name]]
    return {NAMES.get(name, name) + "".join(rest) for name, *rest in split}


def test_the_recipe_requires_what_the_package_requires():
    python = PROJECT["project"]["requires-python"]
    assert f'set python_min = "{python.removeprefix(">=")}"' in RECIPE
    assert recipe_needs("run", "  run_constrained:\n") == {
        *PROJECT["project"]["dependencies"],
        "python>={{python_min}}",
    }
    assert recipe_needs("host", "  run:\n") == {
        *PROJECT["build-system"]["requires"],
        "pip",
        "python{{python_min}}",
    }
    assert recipe_needs("run_constrained", "\ntest:") == optional_needs()


def test_the_recipe_has_the_commands_and_the_licence_of_the_package():
    commands = [f"{name} = {where}" for name, where in PROJECT["project"]["scripts"].items()]
    listed = RECIPE.split("  entry_points:\n")[1].split("\n\n")[0]
    assert re.findall(r"^    - (.*)$", listed, re.M) == commands
    assert (
        re.findall(r"^  license_file: (.*)$", RECIPE, re.M) == PROJECT["project"]["license-files"]
    )
    assert all((ROOT / name).is_file() for name in PROJECT["project"]["license-files"])
    imported = RECIPE.split("  imports:\n")[1].split("  requires:\n")[0]
    for name in re.findall(r"- (.*)", imported):
        import_module(name)


def test_the_recipe_follows_the_rules_of_conda_forge():
    sections = ["package", "source", "build", "requirements", "test", "about", "extra"]
    assert re.findall(r"^(\w+):$", RECIPE, re.M) == sections
    assert "  noarch: python\n" in RECIPE
    assert "  number: 0\n" in RECIPE
    assert re.search(r"^  sha256: [0-9a-f]{64}$", RECIPE, re.M)
    assert "https://pypi.org/packages/source/" in RECIPE
    assert "--no-deps --no-build-isolation" in RECIPE
    assert "python {{ python_min }}" in RECIPE.split("\ntest:\n")[1]
    assert "    - pip check\n" in RECIPE
    assert re.search(r"^  recipe-maintainers:\n    - \S+\n\Z", RECIPE, re.M)
    assert not re.search(r"[ \t]+$", RECIPE, re.M)
