"""The paper's numbers, from the functions of the examples, and the gallery that runs by itself."""

import re
import runpy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from examples import data as data_sets
from examples import paper_purification as paper
from examples.data import REPOSITORY, DataUnavailableError
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
    effects = pd.DataFrame([[-1.0, 0.5, -1.0, -0.2], [1.0, 2.5, 1.0, 1.8]], index, columns)
    assert [flip.level for flip in compas.sign_flips("model", effects)] == ["sex = Female"]
    X = pd.DataFrame({"sex": ["Female", "Male", "Female", "Male"]})
    same_zero = compas.recentred(effects, X)
    np.testing.assert_allclose(same_zero, np.tile([[-1.0], [1.0]], 4))
    assert compas.sign_flips("model", same_zero) == []


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


@pytest.fixture
def gallery():
    """Run a page of the gallery and return its names."""
    pytest.importorskip("xgboost")
    plt = pytest.importorskip("matplotlib.pyplot")

    def run(name):
        (path,) = (REPOSITORY / "examples").glob(f"*/{name}.py")
        return runpy.run_path(str(path))

    yield run
    plt.close("all")


@pytest.fixture
def fewer_rows(monkeypatch):
    """Have pages read some rows of a data set: enough for what they say, in less time."""

    def shorten(name, n_rows):
        read = getattr(data_sets, name)

        def some():
            data = read()
            rows = np.sort(np.random.default_rng(0).permutation(len(data.y))[:n_rows])
            return replace(data, X=data.X.iloc[rows], y=data.y[rows])

        monkeypatch.setattr(data_sets, name, some)

    return shorten


def test_gallery_purifies_a_model(gallery, capsys):
    names = gallery("plot_purify_xgboost")
    assert names["d"].verify(names["model"], names["X"]).relative_difference < 1e-6
    assert "The components add up to what was purified in every cell" in capsys.readouterr().out


def test_gallery_explains_a_deep_model(gallery):
    names = gallery("plot_deep_model")
    d = names["d"]
    assert d.feature_names == ("income", "debt", "age", "years of debt", "job")
    assert d.remainder is not None
    assert d.importance()["term"].iloc[0] == "income"


def test_gallery_audit_finds_the_interaction_that_was_put_in(gallery):
    pytest.importorskip("interpret")
    names = gallery("plot_audit")
    pairs = names["d"].importance().query("order == 2")["term"]
    assert pairs.iloc[0] == "floor & lift"
    assert {"hidden effect"} <= {finding.kind for finding in names["found"].findings}
    difference = names["ebm"].predict(names["flats"]) - names["model"].predict(names["flats"])
    assert np.abs(difference).max() < 1e-6 * np.abs(names["rent"]).max()


def test_gallery_audit_of_an_ebm_finds_what_was_moved(gallery):
    pytest.importorskip("interpret")
    names = gallery("plot_audit_ebm")
    d = names["found"].decomposition
    bmi = (d.feature_names.index("bmi"),)
    honest, found = (
        [own.kind for own in names[audit].findings if own.subset == bmi]
        for audit in ("honest", "found")
    )
    assert honest == []
    assert set(found) == {"hidden effect", "contradiction"}
    position = names["mended"].term_names_.index("bmi")
    np.testing.assert_allclose(
        names["mended"].term_scores_[position][1:-1],
        names["honest"].decomposition["bmi"].values[:, 0],
        atol=1e-9,
    )
    assert names["high"] > 0 > names["low"]


def test_gallery_trees_agree_with_the_closed_form(gallery):
    names = gallery("plot_closed_form")
    assert 0 < names["worst"] < 2e-6
    assert names["from_trees"].importance()["term"].isin(["soil & water"]).any()


def test_gallery_groups_are_those_of_the_function(gallery):
    names = gallery("plot_groups")
    groups = ("rain & sun & wind", "sand & clay & lime", "plough & seed", "year")
    assert names["found"].group_names == groups


def test_gallery_apparent_interactions_are_main_effects(gallery, capsys):
    names = gallery("plot_apparent_to_pure")
    before, after = (
        names[name].importance().query("order == 1")["variance_share"].sum()
        for name in ("before", "d")
    )
    assert before < 0.05
    assert after > 0.9
    assert "and           intercept 0.25, each main effect [-0.25  0.25]" in capsys.readouterr().out


def test_gallery_compares_measures(gallery):
    names = gallery("plot_compare_measures")
    by_measure, X = names["by_measure"], names["X"]
    for d in by_measure.values():
        np.testing.assert_allclose(d.predict(X), by_measure["uniform"].predict(X), rtol=1e-10)
    assert names["compared"].terms["relative_distance"].max() > 0.1


def test_gallery_effects_are_near_their_formulas(gallery):
    names = gallery("plot_measures")
    near = np.abs(names["x"]) < 1.5
    for title, effect, truth in names["panels"]:
        assert np.max(np.abs(effect - truth)[near]) < 0.6, title


def test_gallery_explains_pipelines_in_their_raw_columns(gallery, fewer_rows):
    for name in ("adult", "bike_sharing_hour"):
        data_path(name)
    fewer_rows("bike_sharing_hour", 2000)
    names = gallery("plot_pipelines")
    education = names["education"].to_numpy()
    off = np.abs(education - education[:, 2:3]).mean(axis=0) / np.abs(education[:, 2]).mean()
    assert len(names["dummies"]) == 16
    assert 0.2 < off[0] < 0.3
    assert 0.0 < off[1] < 0.02
    assert names["d"].feature_names == tuple(names["X"].columns)


def test_gallery_bands_are_those_of_twenty_trainings(gallery):
    data_path("compas_two_years")
    names = gallery("plot_uncertainty")
    d, X = names["d"], names["data"].X
    shipped = names["model"].predict(X, output_margin=True)
    np.testing.assert_allclose(d.predict(X), shipped, atol=1e-5)
    assert d.spread.n_models == 20
    assert {"priors_count", "age"} & set(names["unsure"]) == set()
    assert 20 < len(names["unsure"]) < len(d)


def test_gallery_exports_the_same_model_everywhere(gallery):
    for module in ("onnxruntime", "onnx", "interpret"):
        pytest.importorskip(module)
    data_path("adult")
    names = gallery("plot_exports")
    assert max(names["in_database"], names["in_onnx"], names["in_ebm"]) < 1e-6
    assert names["card"].rounding.largest_probability < 0.1
    assert 0.9 < names["kept"] < 1.0


def test_gallery_keeps_few_effects_of_the_income_model(gallery, fewer_rows):
    for name in ("adult", "bike_sharing_hour", "california_housing", "compas_two_years"):
        data_path(name)
        fewer_rows(name, 4000)
    names = gallery("plot_worth")
    simple = names["simple"]
    assert len(simple.decomposition) < len(simple.model) / 3
    assert simple.steps[simple.chosen].loss <= 1.01 * simple.model_loss
    assert np.all(names["idle"]["low"] <= 0)


def test_gallery_quotes_what_the_audits_say(gallery):
    for name in ("compas_two_years", "adult", "bike_sharing_hour"):
        data_path(name)
    names = gallery("plot_audit_real_data")

    def finding(audit, kind, *features):
        named = names[audit].decomposition.feature_names
        subset = tuple(named.index(feature) for feature in features)
        return next(
            own for own in names[audit].findings if (own.kind, own.subset) == (kind, subset)
        )

    assert re.search(
        r"3\.\d% of the mass", finding("recidivism", "contradiction", "length_of_stay").sentence
    )
    assert re.search(
        r"8\d% of the larger of its two standard deviations",
        finding("recidivism", "measure", "race").sentence,
    )
    assert "term's is 0." in finding("income", "hidden effect", "marital_status").sentence
    spurious = finding("income", "spurious interaction", "age", "capital_gain").sentence
    assert re.search(r"[23]\.\d% of the variance", spurious)
    assert re.search(r"0\.0\d% is left", spurious)
    extrapolation = finding("income", "extrapolation", "capital_gain", "capital_loss").sentence
    assert re.search(r"reaches 1\.\d+ where there are no data, and 0 where", extrapolation)
    finding("income", "identifiability", "workclass", "occupation")
    assert "term's is 0." in finding("bicycles", "hidden effect", "yr").sentence
    finding("bicycles", "identifiability", "temp", "atemp")
    shares = names["bicycles"].decomposition.importance().set_index("term")["variance_share"]
    assert shares["hr"] == pytest.approx(0.75, abs=0.03)
    assert shares["yr"] == pytest.approx(0.1, abs=0.02)


def test_gallery_says_which_real_data_are_missing(gallery, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TREEPURIFY_DATA", str(tmp_path))
    names = gallery("plot_audit_real_data")
    assert names["income"] is None
    assert capsys.readouterr().out.count("left out: ") == 3
