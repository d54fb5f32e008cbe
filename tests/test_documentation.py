"""The Python code in the README and on the pages runs as it is printed."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    "README.md",
    "docs/getting_started.md",
    "docs/continuous.md",
    "docs/deep.md",
    "docs/exporting.md",
    "docs/extending.md",
    "docs/streams.md",
]

# What the code of a page uses beside treepurify and scikit-learn.
NEEDS = {
    "README.md": ("xgboost", "matplotlib"),
    "docs/getting_started.md": ("xgboost", "matplotlib"),
    "docs/continuous.md": (),
    "docs/deep.md": ("xgboost",),
    "docs/exporting.md": ("interpret", "shap", "shapiq"),
    "docs/extending.md": (),
    "docs/streams.md": ("pyarrow", "dask.dataframe"),
}


@pytest.mark.parametrize("page", PAGES)
def test_printed_code_runs(page, tmp_path, monkeypatch):
    for module in NEEDS[page]:
        pytest.importorskip(module, reason=f"the page {page} uses it")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    assert blocks, f"{page} shows no code"
    exec(compile("\n".join(blocks), page, "exec"), {"__name__": page})


def test_pages_link_to_what_is_there():
    missing = []
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"(?<!!)\[[^\]]*\]\(([^)#]+)\)", text):
            if "://" not in target and not (page.parent / target).exists():
                missing.append(f"{page.relative_to(ROOT)} links to {target}")
    assert not missing, "\n".join(missing)


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
