"""Versions of a report are of one model; those of another are refused with the reason."""

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

import treepurify as tp
from tests.cases import needs_stored_labels
from tests.report.test_interactive import in_browser, needs_chromium
from treepurify.report import write_html


def purified(y, depth=2, weights="empirical", names=("a", "b", "c"), X=None):
    X = np.random.default_rng(0).integers(0, 2, (200, 3)).astype(float) if X is None else X
    model = GradientBoostingRegressor(n_estimators=10, max_depth=depth, random_state=0)
    return tp.purify(
        model.fit(X, y(X)), X, weights=weights, feature_names=list(names), progress=False
    )


def product(X):
    return X[:, 0] * X[:, 1] + X[:, 2]


def test_the_same_model_is_accepted(tmp_path):
    others = [purified(product, weights=weights) for weights in ("uniform", "independent")]
    page = write_html(purified(product), tmp_path / "d.html", top=1, measures=others)
    assert "purified, uniform" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (lambda: purified(product, names=("a", "b", "d")), r"other features.*'c'.*'d'"),
        (lambda: purified(product, names=("b", "a", "c")), r"features: the same ones in another"),
        (lambda: purified(product, depth=1), r"other effects: only the report has '\w & \w'"),
        (lambda: replace(purified(product), output_names=("two",)), r"other outputs.*'two'"),
        (lambda: purified(lambda X: 3 * product(X)), r"belongs to another model"),
    ],
)
def test_another_model_is_refused(other, reason, tmp_path):
    with pytest.raises(tp.errors.InvalidInputError, match=reason) as caught:
        write_html(purified(product), tmp_path / "d.html", top=0, measures=[other()])
    assert "treepurify.compare" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_other_cells_are_refused(tmp_path):
    first, second = (np.random.default_rng(seed).normal(size=(200, 3)) for seed in (0, 1))
    d, other = (purified(lambda X: product(X) + X[:, 1] * X[:, 2], X=X) for X in (first, second))
    with pytest.raises(tp.errors.InvalidInputError, match=r"other (intervals of '[abc]'|effects)"):
        write_html(d, tmp_path / "d.html", top=0, measures=[other])


def test_classes_are_called_classes_and_ranked_together(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] * X[:, 2] > 0.5)
    model = GradientBoostingClassifier(n_estimators=5, max_depth=2, random_state=0).fit(X, y)
    d = tp.purify(model, X, weights="empirical", progress=False)
    page = write_html(d, tmp_path / "d.html", top=1).read_text(encoding="utf-8")
    table = page[page.index("<table>") : page.index("</table>")]
    assert "<td>class 2</td>" in table
    assert "effect on the score of class " in page
    assert "Share by covariance, within its output" in table
    assert "all outputs taken together" in page
    names = re.findall(r'<th scope="row">(.*?)</th>', table.replace("&amp;", "&"))
    assert list(dict.fromkeys(map(unescape, names))) == [
        d.term_name(subset) for subset in d.ranking.order
    ]
    assert len(names) > 3


@needs_chromium
def test_pages_open_where_there_is_something_to_see(tmp_path):
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(400, 3)), columns=["a", "b", "c"])
    X["kind"] = pd.Categorical(rng.choice([f"a long name {i}" for i in range(12)], 400))
    y = np.where(X["a"] > 1, 1, 0)
    y[(X["b"] * X["c"] > 0.3) & (X["kind"].cat.codes < 6)] = 2
    model = xgboost.XGBClassifier(
        n_estimators=3, max_depth=2, enable_categorical=True, n_jobs=1, min_child_weight=20
    ).fit(X, y)
    needs_stored_labels(model)
    d = tp.purify(model, X, weights="empirical", missing_cells="always", progress=False)
    pairs = [s for s in d if len(s) == 2]
    first = max(pairs, key=lambda s: d.components[s].variance.sum())
    variance = d.components[first].variance
    assert variance.max() > 0
    assert variance.min() == 0
    page = write_html(d, tmp_path / "d.html", top=1)
    result = in_browser(
        page,
        """
        const place = document.getElementById("pair-explorer");
        const [pair, output] = place.querySelectorAll("select");
        result.pair = pair.selectedOptions[0].textContent;
        result.output = Number(output.value);
        choose(output, NONE);
        result.none = text("#pair-explorer .canvas");
        const main = document.getElementById("main-explorer");
        const names = [...main.querySelector("select").options].map((own) => own.textContent);
        choose(main.querySelector("select"), names.findIndex((own) => own.startsWith("a ")));
        result.labels = all("text", main).map((own) => own.textContent);
        const kind = report.data.axes.find((own) => !own.cuts);
        result.slots = report.slots(kind);
        result.marks = [];
        report.marks(kind, result.slots, 4, (part, text) => result.marks.push(text));
        result.depth = [report.depth(kind, 400), report.depth(kind, 4000)];
        const name = result.pair.split(" (")[0];
        all("button.link").find((own) => own.textContent === name).click();
        result.opened = Number(output.value);
        """.replace("NONE", str(variance.argmin())),
        tmp_path,
    )
    assert result["pair"].startswith(d.term_name(first))
    assert result["output"] == result["opened"] == variance.argmax()
    assert result["none"].endswith(f"no effect on class {variance.argmin()}.")
    # No row has a missing value, so the cells for them have no place.
    assert "missing" not in result["labels"]
    assert len(result["marks"]) == 12
    assert not {"missing", "other"} & set(result["marks"])
    assert result["slots"][11][1] == pytest.approx(1)
    assert result["depth"][0] > 0
    assert result["depth"][1] == 0
