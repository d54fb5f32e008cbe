"""The pages of the gallery run by themselves, and say what their models show."""

import ast
import re
import runpy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from examples import data as data_sets
from examples.data import REPOSITORY
from examples.made_up import MADE_UP, or_made_up
from tests.cases import data_path

pytestmark = pytest.mark.docs


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
    assert "The effects sum to the model" in capsys.readouterr().out


def test_gallery_explains_a_deep_model(gallery):
    names = gallery("plot_deep_model")
    d = names["d"]
    assert d.feature_names == ("income", "debt", "age", "years of debt", "job")
    assert d.remainder is not None
    assert d.importance()["effect"].iloc[0] == "income"


def test_gallery_audit_finds_the_interaction_that_was_put_in(gallery):
    pytest.importorskip("interpret")
    names = gallery("plot_audit")
    pairs = names["d"].importance(2)["effect"]
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
    assert names["from_trees"].importance()["effect"].isin(["soil & water"]).any()


def test_gallery_groups_are_those_of_the_function(gallery):
    names = gallery("plot_groups")
    groups = ("rain & sun & wind", "sand & clay & lime", "plough & seed", "year")
    assert names["found"].group_names == groups


def test_gallery_apparent_interactions_are_main_effects(gallery, capsys):
    names = gallery("plot_apparent_to_pure")
    before, after = (names[name].importance(1)["share"].sum() for name in ("before", "d"))
    assert before < 0.05
    assert after > 0.9
    assert "AND intercept 0.25, each main effect [-0.25  0.25]" in capsys.readouterr().out


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


def test_gallery_gives_reasons_that_come_in_other_trainings(gallery, fewer_rows):
    data_path("adult")
    fewer_rows("adult", 4000)
    names = gallery("plot_reason_codes")
    assert np.abs(names["reasons"].sums()["remainder"]).max() < 1e-12
    by_rank = names["by_rank"]
    assert by_rank.iloc[0] > max(by_rank.iloc[3], 0.8)


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
    pytest.importorskip("interpret")
    data_path("adult")
    names = gallery("plot_exports")
    assert max(names["in_database"], names["in_ebm"]) < 1e-6
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
            own for own in names[audit].findings if own.kind == kind and subset in own.effects
        )

    assert re.search(
        r"3\.\d% of the distr", finding("recidivism", "contradiction", "length_of_stay").sentence
    )
    race = finding("recidivism", "distribution", "race")
    assert "race" in race.sentence
    compared = names["recidivism"].comparisons[race.measure].terms.set_index("term")
    assert 0.8 < compared.loc["race", "relative_distance"] < 0.9
    assert ", not 0" in finding("income", "hidden effect", "marital_status").sentence
    spurious = finding("income", "spurious interaction", "age", "capital_gain").sentence
    assert re.search(r"stored table has a size of 0\.4\d*, of which 0\.07\d* remains", spurious)
    extrapolation = finding("income", "extrapolation", "capital_gain", "capital_loss").sentence
    assert re.search(r"is up to 1\.\d+ at combinations .* but zero at", extrapolation)
    income = names["income"].decomposition
    open_pairs = {income.term_name(s) for s, n in income.origin.open_directions.items() if n}
    assert "workclass & occupation" in open_pairs
    assert ", not 0" in finding("bicycles", "hidden effect", "yr").sentence
    finding("bicycles", "identifiability", "temp", "atemp")
    shares = names["bicycles"].decomposition.importance().set_index("effect")["share"]
    assert shares["hr"] == pytest.approx(0.63, abs=0.03)
    assert shares["yr"] == pytest.approx(0.1, abs=0.02)


def test_made_up_tables_have_the_columns_of_the_data(monkeypatch, tmp_path, capsys):
    for name, made_up in MADE_UP.items():
        data_path(name)
        load = getattr(data_sets, name)
        real, stand_in = load(), made_up()
        kinds = [
            {column: isinstance(own.X[column].dtype, pd.CategoricalDtype) for column in own.X}
            for own in (real, stand_in)
        ]
        assert kinds[0] == kinds[1]
        assert len(stand_in.X) == len(stand_in.y)
        assert stand_in.is_binary == real.is_binary
    monkeypatch.setenv("TREEPURIFY_DATA", str(tmp_path))
    assert or_made_up(data_sets.adult).name == "adult, made up"
    assert "is used" in capsys.readouterr().out


def test_pages_draw_without_the_data(gallery, monkeypatch, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setenv("TREEPURIFY_DATA", str(tmp_path))
    for name in ("plot_gap_and_drift", "plot_reason_codes"):
        gallery(name)
        assert plt.get_fignums()
        plt.close("all")


PAGES = sorted((REPOSITORY / "examples").glob("*/plot_*.py"))


def figures_of(page):
    """Return, for each top-level figure of a page, the statements that draw it."""
    figures, drawing = [], []
    for node in ast.parse(page.read_text(encoding="utf-8")).body:
        drawing.append(ast.unparse(node))
        if "plt.show()" in drawing[-1] and isinstance(node, ast.Expr | ast.For):
            figures.append("\n".join(drawing))
            drawing = []
    return figures


def thumbnail_of(page):
    """Return the kinds of plots in the figure that stands for a page, and what they draw."""
    text = page.read_text(encoding="utf-8")
    chosen = re.search(r"^# sphinx_gallery_thumbnail_number = (\d+)$", text, re.MULTILINE)
    figures = figures_of(page)
    number = int(chosen.group(1)) if chosen else 1
    # The figures of a loop are several, of which the text of the page tells no number.
    figure = figures[min(number, len(figures)) - 1]
    return tuple(re.findall(r"plots\.\w+\(.*?\)|ax\w*\.\w+\(.*?\)", figure))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_draws_whatever_is_on_the_machine(page):
    # A figure under a condition could leave the page without a picture.
    assert figures_of(page)


def test_no_two_pages_have_the_same_thumbnail():
    thumbnails = [thumbnail_of(page) for page in PAGES]
    assert len(set(thumbnails)) == len(PAGES)


def test_gallery_finds_a_broken_constraint_and_proves_the_one_that_is_kept(gallery, fewer_rows):
    data_path("california_housing")
    fewer_rows("california_housing", 4000)
    names = gallery("plot_monotonicity")
    check = names["check"]
    assert check.verdict == "violated"
    first, second = names["model"].predict(names["two"])
    assert first - second == pytest.approx(check.worst.size, rel=1e-4)
    assert check.by_effect(names["d"]).sum() == pytest.approx(-check.worst.size, rel=1e-6)
    assert names["kept"].is_proved


def test_gallery_gap_adds_up_without_the_sex_in_the_model(gallery, fewer_rows):
    data_path("adult")
    fewer_rows("adult", 4000)
    names = gallery("plot_gap_and_drift")
    gap, sex = names["gap"], names["sex_test"]
    p = names["d"].predict(names["X_test"])
    expected = p[sex == "Male"].mean() - p[sex == "Female"].mean()
    assert gap.groups == ("Female", "Male")
    assert gap.to_frame()["difference"].sum() == pytest.approx(expected, abs=1e-12)
    assert "sex" not in names["d"].feature_names
    assert names["found"].features_frame()["feature"].iloc[0] == "age"


def test_gallery_confirms_weak_spots_with_a_larger_loss(gallery, fewer_rows):
    data_path("california_housing")
    fewer_rows("california_housing", 6000)
    names = gallery("plot_weak_spots")
    found, y, X = names["found"], names["y_test"], names["X_test"]
    assert any(spot.is_confirmed for spot in found.spots)
    losses = (y - names["model"].predict(X)) ** 2
    assert losses[found.rows_in(0, X)].mean() > 1.3 * losses.mean()


def test_gallery_gap_of_compas_is_that_of_prior_charges_and_age(gallery):
    data_path("compas_two_years")
    names = gallery("plot_compas")
    assert not {"race", "sex"} & set(names["d"].feature_names)
    assert set(names["by_race"].to_frame()["term"][:2]) == {"priors_count", "age"}
    assert set(names["reasons"].table()["reason"]) <= set(names["d"].feature_names)


def test_gallery_factors_are_those_of_the_simulated_policies(gallery):
    names = gallery("plot_claims_frequency")
    np.testing.assert_allclose(names["expected"], names["given"], rtol=1e-5)
    assert names["exposure"][0] * names["premium"] == pytest.approx(names["expected"][0], rel=1e-12)
    assert names["expected"].sum() == pytest.approx(names["claims"].sum(), rel=0.01)
    young, old = (
        names["d"].predict(names["policies"].iloc[:1].assign(age=age, power=12.0))[0]
        for age in (22.0, 45.0)
    )
    assert young - old == pytest.approx(1.1, abs=0.25)
