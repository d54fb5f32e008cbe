"""Two classes that have names: on axes, in reports, and as observations."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier

import treepurify as tp

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
IS_GOOD = X["a"] + 0.5 * rng.normal(size=300) > 0
LABELS = np.where(IS_GOOD, "good payer", "bad payer")
MODELS = {
    "LightGBM": lambda: lightgbm.LGBMClassifier(verbose=-1, n_estimators=10, n_jobs=1),
    "scikit-learn": lambda: GradientBoostingClassifier(max_depth=2, n_estimators=10),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_class_is_named_where_its_odds_are_shown(name, tmp_path):
    d = tp.purify(MODELS[name]().fit(X, LABELS), X, progress=False)
    assert d.output_names == ("good payer",)
    label = tp.plots.main_effect(d, "a").get_ylabel()
    assert label.replace("\n", " ") == "effect on the log-odds of class 'good payer'"
    page = tp.report.write_html(d, tmp_path / "page.html", top=1)
    assert "bad payer, good payer" in page.read_text(encoding="utf-8")
    assert "-- class labels: 'bad payer', 'good payer'" in tp.export.to_sql(d)


@pytest.mark.parametrize(
    "engine",
    [
        tp.purify,
        tp.ale_anova,
        tp.categorical_anova,
        tp.hooker_anova,
        tp.legendre_anova,
        tp.partial_dependence_anova,
    ],
)
@pytest.mark.parametrize("name", MODELS)
def test_every_engine_keeps_the_labels(engine, name):
    rounded = X.round(0)
    d = engine(MODELS[name]().fit(rounded, LABELS), rounded, progress=False)
    assert d.origin.model.class_labels == ("bad payer", "good payer")


@pytest.mark.parametrize("name", MODELS)
def test_labels_are_observations(name):
    d = tp.purify(MODELS[name]().fit(X, LABELS), X, progress=False)
    for loss in ("log_loss", "auc", "squared_error"):
        by_label = tp.effect_worth(d, X, LABELS, loss=loss, progress=False)
        by_number = tp.effect_worth(d, X, IS_GOOD.astype(int), loss=loss, progress=False)
        pd.testing.assert_frame_equal(by_label.to_frame(), by_number.to_frame())
    with pytest.raises(tp.errors.InvalidInputError, match="two labels, one of them the name"):
        tp.effect_worth(d, X, np.where(IS_GOOD, "yes", "no"), progress=False)


def test_zero_and_one_name_no_class():
    model = MODELS["LightGBM"]().fit(X, IS_GOOD.astype(int))
    d = tp.purify(model, X, progress=False)
    assert d.output_names == ("margin",)
    assert tp.plots.main_effect(d, "a").get_ylabel() == "effect on the log-odds"
