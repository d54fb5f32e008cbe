"""The numbers of the purification paper, from the functions of its example."""

import sys
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from examples import data as data_sets
from examples import paper_purification as paper
from examples import paper_purification_curves as curves
from examples.data import DataUnavailableError
from examples.paper_purification_package import (
    by_authors_package,
    by_interpret,
    by_least_squares,
    by_treepurify,
    histogram,
    main_effect_error,
)
from tests.cases import data_path


@pytest.mark.parametrize("realization", paper.FIGURE_1, ids=lambda row: row.name)
def test_figure_1_has_one_purified_form(realization):
    purified = paper.FIGURE_1[3]
    np.testing.assert_array_equal(realization.values(), purified.values())
    d = paper.purify_realization(realization)
    assert d.intercept[0] == pytest.approx(0.0, abs=1e-15)
    for name in ("X1", "X2"):
        np.testing.assert_allclose(d[name].values[:, 0], purified.main, atol=1e-15)
    np.testing.assert_allclose(d["X1", "X2"].values[..., 0], purified.pair, atol=1e-15)


def test_identities_of_and_and_or_hold_exchanged_only():
    errors = list(paper.bitwise_identities().values())
    assert min(errors[0].values()) > 0.5
    assert min(errors[1].values()) > 0.5
    assert errors[2] == {"OR": 0.0, "AND": 0.0}


@pytest.mark.parametrize("name", paper.SNP_MODELS)
def test_table_2_is_table_1_purified_under_even_odds(name):
    before, after = paper.SNP_MODELS[name]
    d = paper.purify_snps(before, paper.SNP_DISTRIBUTIONS["0 or 1, even odds"])
    assert paper.snp_coefficients(d) == pytest.approx(after, abs=1e-15)
    # Heights: half a step for a main effect, the same number in all cells for the interaction.
    np.testing.assert_allclose(np.abs(d["SNP1"].values[:, 0]), abs(after[0]) / 2, atol=1e-15)
    np.testing.assert_allclose(np.abs(d["SNP1", "SNP2"].values), abs(after[2]), atol=1e-15)
    variances = [d["SNP1"].variance[0], d["SNP2"].variance[0], d["SNP1", "SNP2"].variance[0]]
    expected = [after[0] ** 2 / 4, after[1] ** 2 / 4, after[2] ** 2]
    assert variances == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("distribution", list(paper.SNP_DISTRIBUTIONS)[1:])
def test_no_other_distribution_gives_table_2(distribution):
    before, after = paper.SNP_MODELS["Interaction Only"]
    d = paper.purify_snps(before, paper.SNP_DISTRIBUTIONS[distribution])
    same = np.allclose(paper.snp_coefficients(d), after)
    assert not (same and paper.is_two_sided(d))


def test_product_has_linear_mains_and_an_xor_like_interaction():
    middles, product = paper.product_grid()
    d = paper.purify_surface(product)
    centred = middles - 0.5
    assert d.intercept[0] == pytest.approx(0.25, abs=1e-15)
    np.testing.assert_allclose(d["X1"].values[:, 0], centred / 2, atol=1e-14)
    np.testing.assert_allclose(d["X2"].values[:, 0], centred / 2, atol=1e-14)
    pair = d["X1", "X2"]
    np.testing.assert_allclose(pair.values[..., 0], np.outer(centred, centred), atol=1e-14)
    total = sum(component.variance[0] for component in d.components.values())
    assert pair.variance[0] / total == pytest.approx(1 / 7, rel=1e-3)


def test_logarithm_of_the_product_has_no_interaction():
    middles, product = paper.product_grid()
    d = paper.purify_surface(np.log(product))
    assert np.max(np.abs(d["X1", "X2"].values)) < 1e-13
    logs = np.log(middles)
    np.testing.assert_allclose(d["X1"].values[:, 0], logs - logs.mean(), atol=1e-13)


def test_california_interaction_shrinks_and_leaves_the_sea():
    pytest.importorskip("xgboost")
    data_path("california_housing")
    from examples import paper_purification_housing as housing

    data = data_sets.california_housing()
    d = tp.purify(housing.train(data, rounds=60), data.X, weights="uniform", progress=False)
    before, after = housing.variance_shares(d)
    assert after < before / 3
    found = housing.interaction(d, data)
    assert found.districts.sum() == len(data.y)
    sea = found.is_sea()
    assert sea.flat[np.argmax(found.before)]
    assert not sea.flat[np.argmax(found.after)]
    assert found.after[sea].mean() < found.before[sea].mean() / 3


def test_compas_rows_and_columns():
    data_path("compas_two_years")
    X, targets = data_sets.compas()
    assert X.shape == (6172, 9)
    assert targets["two_year_recid"].sum() == 2809
    assert set(targets["decile_score"]) == set(range(1, 11))
    assert X["length_of_stay"].min() >= -1
    assert X["race"].nunique() == 6


def test_compas_signs_that_flip():
    from examples import paper_purification_compas as compas

    index = pd.MultiIndex.from_tuples([("sex", "Female"), ("sex", "Male")])
    columns = ["before", *compas.WEIGHTS]
    effects = pd.DataFrame([[-1.0, 0.5, -1.0, -0.2, -1], [1.0, 2.5, 1.0, 1.8, 1]], index, columns)
    assert [flip.level for flip in compas.sign_flips("model", effects)] == ["sex = Female"]
    X = pd.DataFrame({"sex": ["Female", "Male", "Female", "Male"]})
    same_zero = compas.recentred(effects, X)
    np.testing.assert_allclose(same_zero, np.tile([[-1.0], [1.0]], 5))
    assert compas.sign_flips("model", same_zero) == []


def test_compas_as_the_authors_encode_it():
    from examples import paper_purification_compas as compas

    X = pd.DataFrame(
        {
            "age": [24, 25, 45, 46],
            "sex": ["Female", "Male", "Male", "Male"],
            "race": ["Asian", "Caucasian", "Other", "Hispanic"],
            "priors_count": [0, 1, 2, 3],
            "c_charge_degree": ["M", "F", "F", "F"],
        }
    )
    encoded = compas.published_encoding(X)
    assert encoded["below 25"].tolist() == encoded["female"].tolist() == [1, 0, 0, 0]
    assert encoded["above 45"].tolist() == encoded["Hispanic"].tolist() == [0, 0, 0, 1]
    assert encoded["misdemeanor"].tolist() == encoded["Asian"].tolist() == [1, 0, 0, 0]
    assert encoded.loc[1].tolist() == [1.0] + [0.0] * 9


def test_compas_main_effects_of_a_purified_model_have_mean_zero():
    pytest.importorskip("xgboost")
    data_path("compas_two_years")
    from xgboost import XGBClassifier

    from examples import paper_purification_compas as compas

    X, targets = data_sets.compas()
    settings = {"n_estimators": 30, "learning_rate": 0.3, "enable_categorical": True}
    model = XGBClassifier(max_depth=2, **settings).fit(X, targets["two_year_recid"])
    effects = compas.main_effects(model, X)
    centred = compas.recentred(effects, X)
    for column in ("before", "empirical"):
        np.testing.assert_allclose(effects[column], centred[column], atol=1e-12)
    # The people below 25 stand out after purification; the trees hold that in interactions.
    young = effects.loc["age", "< 25"]
    assert young["empirical"] > 0.5
    assert abs(young["before"]) < 0.1


def test_missing_data_are_left_out_with_the_reason(monkeypatch, tmp_path, capsys):
    def no_network(**_):
        raise OSError("no network")

    monkeypatch.setenv("TREEPURIFY_DATA", str(tmp_path))
    monkeypatch.setattr("sklearn.datasets.fetch_california_housing", no_network)
    with pytest.raises(DataUnavailableError, match="set TREEPURIFY_DATA"):
        data_sets.adult()
    paper.show_data_sets(tmp_path, None, small=True)
    printed = capsys.readouterr().out
    assert printed.count("left out: ") == 3
    assert "no network" in printed


def test_the_authors_packages_find_the_same_effects():
    pytest.importorskip("interpret")
    counts, table = histogram(8, 0.5), np.random.default_rng(1).normal(size=(8, 8))
    truth = by_least_squares(table, counts)
    methods = [by_treepurify, by_interpret]
    if find_spec("gam_purification"):
        methods.append(by_authors_package)
    for method in methods:
        own = method(table, counts)
        np.testing.assert_allclose(own.pair, truth.pair, atol=1e-5)
        assert main_effect_error(own, truth, counts) < 1e-5


def made_up_patients(n_rows=400):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: rng.normal(size=n_rows) for name in data_sets.SUPPORT2_FEATURES})
    labels = [name for name in table if name.startswith("fac_")]
    table[labels] = rng.choice(["a", "b"], size=(n_rows, len(labels)))
    age, bun = rng.integers(20, 90, (2, n_rows)).astype(float)
    table["num_age"], table["num_bun"] = age, np.where(np.arange(n_rows) % 3, bun, np.nan)
    table["time"] = 200 + np.abs(age - 55) - np.abs(bun - 40)
    table["event"] = (table["time"] < 210).astype(int)
    table["num_surv6m"] = (table["time"] > 180).astype(float)
    return table


def test_patients_have_no_feature_that_knows_the_outcome(monkeypatch):
    table = made_up_patients()
    monkeypatch.setattr(data_sets, "_support2_table", lambda: table)
    data = data_sets.support2()
    np.testing.assert_array_equal(data.y, table["time"] <= 180)
    assert len(data.X.columns) == len(data_sets.SUPPORT2_FEATURES)
    assert not {"surv6m", "surv2m", "sps", "dnr", "sfdm2", "time", "event"} & set(data.X)
    assert str(data.X["sex"].dtype) == "category"


def test_curves_of_the_patients_with_missing_values(monkeypatch, tmp_path):
    for name in ("xgboost", "interpret", "matplotlib"):
        pytest.importorskip(name)
    monkeypatch.setattr(data_sets, "_support2_table", made_up_patients)
    table = curves.figure_5(curves.SUPPORT2, tmp_path, 10)
    assert (tmp_path / f"{table.name}.png").stat().st_size > 1000
    sizes = np.array([entry.ours["ours"] for entry in table.entries])
    assert [entry.label for entry in table.entries][:2] == ["XGB2, age", "XGB2, bun"]
    assert np.isfinite(sizes).all()
    # Two splits of trees of depth 2 belong to pairs: purification gives the curves.
    assert sizes[:2, 1:].min() > 0


def test_patients_come_with_a_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "SurvSet.data", None)
    with pytest.raises(DataUnavailableError, match="pip install survset"):
        data_sets.support2()
