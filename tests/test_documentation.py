"""The Python code in the README and on the pages runs as it is printed."""

import inspect
import re
from pathlib import Path

import pytest

import treepurify as tp

ROOT = Path(__file__).resolve().parents[1]
# What the code of a page uses beside treepurify and scikit-learn.
NEEDS = {
    "README.md": ("xgboost", "matplotlib"),
    "docs/auditing.md": ("matplotlib",),
    "docs/categorical.md": (),
    "docs/choosing.md": ("xgboost", "matplotlib"),
    "docs/coming_from.md": ("xgboost", "interpret", "shap", "matplotlib"),
    "docs/comparing.md": ("xgboost", "lightgbm", "matplotlib"),
    "docs/continuous.md": (),
    "docs/deep.md": ("xgboost", "matplotlib"),
    "docs/exporting.md": ("interpret", "shap", "shapiq", "duckdb", "onnx", "onnxruntime", "plotly"),
    "docs/extending.md": (),
    "docs/getting_started.md": ("xgboost", "matplotlib"),
    "docs/index.md": ("xgboost", "matplotlib"),
    "docs/monotonicity.md": ("matplotlib", "lightgbm"),
    "docs/partial_dependence.md": ("xgboost", "matplotlib"),
    "docs/pipelines.md": ("xgboost",),
    "docs/reason_codes.md": (),
    "docs/shapley.md": ("xgboost", "matplotlib"),
    "docs/streams.md": ("pyarrow", "dask.dataframe"),
    "docs/uncertainty.md": ("matplotlib",),
    "docs/validating.md": ("matplotlib",),
    "docs/worth.md": ("xgboost", "matplotlib"),
}

# The model and the rows that a page speaks of without making them.
MODEL = """
import numpy as np
from sklearn.ensemble import GradientBoostingRegressor
import treepurify as tp

X = np.random.default_rng(0).integers(0, 4, size=(80, 5)).astype(float)
model = GradientBoostingRegressor(max_depth=2, n_estimators=20, random_state=0)
y = X[:, 0] * X[:, 1] + X[:, 2]
model.fit(X, y)
d = tp.purify(model, X)
"""
GIVEN = {
    "docs/auditing.md": MODEL
    + """
import pandas as pd

X = pd.DataFrame(X, columns=["age", "income", "hours", "tenure", "sex"])
model.fit(X, X.age * X.income + X.sex)
d = tp.purify(model, X)
""",
    "docs/categorical.md": MODEL
    + """
import pandas as pd
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

table = pd.DataFrame(X[:, :3].astype(int).astype(str), columns=["a", "b", "c"])
network = make_pipeline(OneHotEncoder(), MLPClassifier(5, max_iter=2000, random_state=0))
network.fit(table, X[:, 0] > X[:, 1])
""",
    "docs/monotonicity.md": """
import numpy as np
import pandas as pd
import treepurify as tp
from lightgbm import LGBMRegressor

rng = np.random.default_rng(0)
X = pd.DataFrame({"income": rng.normal(size=400), "age": rng.normal(size=400)})
X["grade"] = pd.Categorical(rng.choice(["A", "B", "C"], 400))
y = X.income * X.age + (X.grade == "A")
model = LGBMRegressor(n_estimators=10, max_depth=2, verbose=-1).fit(X, y)
""",
    "docs/reason_codes.md": """
import numpy as np
import pandas as pd
import treepurify as tp
from sklearn.ensemble import GradientBoostingClassifier

columns = ["late_payments", "defaults", "age_of_account", "income"]
X = pd.DataFrame(np.random.default_rng(0).integers(0, 6, size=(300, 4)), columns=columns)
y = (X.late_payments + X.defaults > X.income).astype(int)
model = GradientBoostingClassifier(n_estimators=10, max_depth=2).fit(X, y)
rejected, approved = X[y == 1], X[y == 0]
""",
    "docs/validating.md": """
import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingClassifier
import treepurify as tp

X = np.random.default_rng(1).integers(0, 4, size=(300, 4)).astype(float)
X = pd.DataFrame(X, columns=["age", "hours", "tenure", "sex"])
X["sex"] %= 2
y = (X.age * X.hours + X.sex > 3).astype(int)
d = tp.purify(GradientBoostingClassifier(n_estimators=10, max_depth=2).fit(X, y), X)
X_2024, X_2025, y_2024, y_2025 = X[:150], X[150:], y[:150], y[150:]
X_test, y_test = X, y
""",
}


def code_of(page):
    """Return the code of a page: blocks that are shown, and cells that the build runs."""
    text = (ROOT / page).read_text(encoding="utf-8")
    block = r"^```(?:python|\{code-cell\} ipython3)\n(?::tags:.*\n)?(.*?)^```"
    return re.findall(block, text, flags=re.DOTALL | re.MULTILINE)


def test_every_page_with_code_is_run():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    names = {str(page.relative_to(ROOT)) for page in pages if "_build" not in page.parts}
    assert {name for name in names if code_of(name)} == set(NEEDS)


@pytest.mark.parametrize("page", NEEDS)
def test_printed_code_runs(page, tmp_path, monkeypatch):
    for module in NEEDS[page]:
        pytest.importorskip(module, reason=f"the page {page} uses it")
    monkeypatch.chdir(tmp_path)
    code = "\n".join([GIVEN.get(page, ""), *code_of(page)])
    exec(compile(code, page, "exec"), {"__name__": page})


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


def test_the_reference_lists_every_public_name_once():
    text = (ROOT / "docs" / "api.rst").read_text(encoding="utf-8")
    listed = []
    for module, block in re.findall(
        r"currentmodule:: (\S+)\n(.*?)(?=\n\.\. currentmodule|\Z)", text, re.S
    ):
        listed += [f"{module}.{name}" for name in re.findall(r"^   ([\w.]+)$", block, re.M)]
    rooms = {name: room for name in tp.__all__ if inspect.ismodule(room := getattr(tp, name))}
    own = set(tp.__all__) - {*rooms, "__version__"}
    public = [f"treepurify.{name}" for name in own]
    public += [f"treepurify.{room}.{name}" for room in rooms for name in rooms[room].__all__]
    assert sorted(listed) == sorted(public)
