"""Comparisons against sums over rows, and against tables done by hand."""

from dataclasses import replace

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

import treepurify as tp
from treepurify.comparing.apparent import model_variance
from treepurify.comparing.compare import compare
from treepurify.comparing.regions import cells_in_words, runs_of_cells
from treepurify.grids.axis import FeatureAxis


def rows(n_rows=400, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n_rows, 3)), columns=["a", "b", "c"])
    X["b"] += 0.8 * X["a"]
    return X, X["a"] * X["b"] + X["c"]


def fitted(X, y, depth=2, n_trees=25):
    return GradientBoostingRegressor(n_estimators=n_trees, max_depth=depth, random_state=0).fit(
        X, y
    )


@pytest.fixture(scope="module")
def data():
    return rows()


@pytest.fixture(scope="module")
def model(data):
    return fitted(*data)


@pytest.fixture(scope="module")
def measures(model, data):
    return tp.purify(model, data[0], weights="empirical"), tp.purify(
        model, data[0], weights="uniform"
    )


def truth_of_term(a, b, term, X, weights):
    first, second = (d.contributions(X)[term].to_numpy() for d in (a, b))
    first, second = first - weights @ first, second - weights @ second
    distance = np.sqrt(weights @ (first - second) ** 2)
    correlation = weights @ (first * second)
    correlation /= np.sqrt((weights @ first**2) * (weights @ second**2))
    return distance, correlation, first, second


@pytest.mark.parametrize("weighted", [False, True])
def test_terms_are_sums_over_rows(measures, data, weighted):
    a, b = measures
    X = data[0]
    sample_weight = np.random.default_rng(1).random(len(X)) if weighted else None
    weights = np.ones(len(X)) if sample_weight is None else sample_weight
    weights = weights / weights.sum()
    compared = compare(a, b, X, sample_weight=sample_weight)
    smallest = 0.02 * np.sqrt(model_variance(a)[0])
    assert set(compared.terms["term"]) == {a.term_name(subset) for subset in a}
    for row in compared.terms.itertuples():
        distance, correlation, first, second = truth_of_term(a, b, row.term, X, weights)
        assert row.distance == pytest.approx(distance, abs=1e-13)
        assert row.correlation == pytest.approx(correlation)
        assert row.deviation_first == pytest.approx(np.sqrt(weights @ first**2))
        beyond = np.minimum(np.abs(first), np.abs(second)) > smallest
        assert row.sign_changes == pytest.approx(weights @ ((first * second < 0) & beyond))
    assert list(compared.terms["distance"]) == sorted(compared.terms["distance"], reverse=True)


def test_rows_of_the_first_are_the_default(measures, data):
    given, own = compare(*measures, data[0]), compare(*measures)
    pd.testing.assert_frame_equal(given.terms, own.terms)
    pd.testing.assert_frame_equal(given.places, own.places)
    pd.testing.assert_frame_equal(given.shapley_ise, own.shapley_ise)
    assert own.mass == "the 400 rows (empirical)"
    swapped = compare(measures[1], measures[0])
    assert swapped.mass == "the 400 rows (empirical)"


def test_shapley_ise_is_equation_21(measures, data):
    a, b = measures
    compared = compare(a, b, data[0])
    assert sorted(compared.shapley_ise["feature"]) == ["a", "b", "c"]
    for row in compared.shapley_ise.itertuples():
        total = np.zeros(len(data[0]))
        for d, sign in ((a, 1.0), (b, -1.0)):
            for subset, values in zip(d, d.contributions(data[0]).to_numpy().T[1:], strict=True):
                if row.feature in [d.feature_names[j] for j in subset]:
                    total += sign * (values - values.mean()) / len(subset)
        assert row.ise == pytest.approx(np.mean(total**2))


def assert_ise_is_that_of_the_shapley_values(compared, a, b, X):
    difference = a.shapley_values(X).values[..., 0] - b.shapley_values(X).values[..., 0]
    difference -= difference.mean(axis=0)
    expected = dict(zip(a.feature_names, np.mean(difference**2, axis=0), strict=True))
    found = dict(compared.shapley_ise[["feature", "ise"]].to_numpy())
    assert set(found) == set(expected)
    for name, ise in expected.items():
        assert found[name] == pytest.approx(ise, rel=1e-9, abs=1e-14)


def test_shapley_ise_splits_parts_of_a_remainder(data):
    """Of the complete decomposition, which keeps the parts of its remainder."""
    deep = fitted(*data, depth=4)
    options = {"method": "mass-moving", "progress": False}
    a, b = (tp.purify(deep, data[0], weights="empirical", order=k, **options) for k in (1, 2))
    c = tp.purify(deep, data[0], weights="laplace", order=1, **options)
    assert a.remainder is not None
    for given in (data[0], None):
        # The same effects, kept apart up to different orders, have the same Shapley values.
        assert compare(a, b, given).shapley_ise["ise"].max() < 1e-20
        assert_ise_is_that_of_the_shapley_values(compare(a, c, given), a, c, data[0])


def test_shapley_ise_splits_a_residual_evenly():
    """The residual of the closed form is one effect of all features (equation 23)."""
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.integers(0, 3, size=(300, 3)), columns=["a", "b", "c"])
    X["c"] = np.where(rng.random(300) < 0.5, X["a"], X["c"])

    def f(X):
        X = np.asarray(X, dtype=float)
        return np.sin(1 + X[:, 0] * X[:, 1] + 2 * X[:, 1] * X[:, 2]) + X[:, 0]

    few, many = (tp.categorical_anova(f, X, order=k, progress=False) for k in (1, 3))
    other = tp.categorical_anova(lambda X: 2 * f(X), X.iloc[::-1], order=1, progress=False)
    assert few.remainder is not None
    assert many.remainder is None
    for given in (X, None):
        assert_ise_is_that_of_the_shapley_values(compare(few, many, given), few, many, X)
        assert_ise_is_that_of_the_shapley_values(compare(many, few, given), many, few, X)
    # Rows in another order: what the second leaves is not known on those of the first.
    unknown = compare(few, other)
    assert unknown.shapley_ise["ise"].isna().all()
    assert "Shapley values differ" not in repr(unknown)
    assert compare(few, other, X).shapley_ise["ise"].notna().all()


def test_cells_where_there_are_no_rows(model):
    one = tp.purify(model, weights="uniform")
    two = tp.purify(fitted(*rows(seed=2)), weights="uniform")
    with pytest.raises(tp.errors.InvalidInputError, match="or categories: pass X"):
        compare(one, two)
    same = compare(one, tp.purify(model, weights="uniform"))
    assert same.terms["distance"].max() == 0.0
    assert len(same.shapley_ise) == 0
    assert "All effects are equal to rounding" in repr(same)
    assert same.mass.startswith("the distribution")


def test_two_by_two_by_hand():
    """f = x0 x1 on four cells: XOR with main effects, under two joint masses."""
    tensors = {(0, 1): np.array([[0.0, 0.0], [0.0, 1.0]])}
    even = tp.purify_tensors(tensors, np.full((2, 2), 0.25))
    slanted = tp.purify_tensors(tensors, [[0.4, 0.1], [0.1, 0.4]])
    compared = compare(even, slanted)
    pair = compared.terms.set_index("term").loc["x0 & x1"]
    # Pure under the slanted mass w: proportional to 1/w with signs, here c (1, -4, -4, 1), where
    # the double difference c (1 + 4 + 4 + 1) is that of x0 x1, which is 1.
    expected = np.array([[0.1, -0.4], [-0.4, 0.1]])
    np.testing.assert_allclose(slanted["x0", "x1"].values[..., 0], expected, atol=1e-14)
    own = np.array([[0.25, -0.25], [-0.25, 0.25]])
    centred = expected - expected.mean()
    assert pair["distance"] == pytest.approx(np.sqrt(np.mean((own - centred) ** 2)))
    assert pair["correlation"] == pytest.approx(1.0)


def test_sign_places_name_the_region():
    X = pd.DataFrame({"x": np.repeat([0.0, 1.0, 2.0, 3.0], 50), "z": np.tile([0.0, 1.0], 100)})
    d = tp.purify(fitted(X, X["x"] * (1 + X["z"]), n_trees=200), X, weights="empirical")
    turned = tp.purify(
        fitted(X, np.array([3.0, 1.0, 2.0, 0.0])[X["x"].astype(int)]), X, weights="empirical"
    )
    compared = compare(d, turned, X, names=("up", "down"))
    places = compared.places[compared.places["term"] == "x"]
    assert {"x < 0.5", "x >= 2.5"} <= set(places["where"])
    low = places[places["where"] == "x < 0.5"].iloc[0]
    assert low["mass"] == pytest.approx(0.25)
    assert low["first"] < 0 < low["second"]
    assert "opposite signs" in repr(compared)
    assert "x" in repr(compared)


def test_two_models_with_other_cells_and_columns(data):
    X, y = data
    a, b = (
        tp.purify(fitted(X, y), X, weights="empirical"),
        tp.purify(fitted(X[["c", "b", "a"]], y), X[["c", "b", "a"]], weights="empirical"),
    )
    compared = compare(a, b, X, names=["one", "other"])
    assert compared.names == ("one", "other")
    weights = np.full(len(X), 1 / len(X))
    for term, other in (("a", "a"), ("a & b", "b & a")):
        first, second = a.contributions(X)[term], b.contributions(X)[other]
        truth = np.sqrt(weights @ ((first - first.mean()) - (second - second.mean())) ** 2)
        row = compared.terms.set_index("term").loc[term]
        assert row["distance"] == pytest.approx(truth)


def test_a_missing_effect_counts_as_zero(data):
    X, y = data
    deep, shallow = (
        tp.purify(fitted(X, y), X, weights="empirical"),
        tp.purify(fitted(X, y, depth=1), X, weights="empirical"),
    )
    row = compare(deep, shallow, X).terms.set_index("term").loc["a & b"]
    assert row["deviation_second"] == 0.0
    assert row["distance"] == pytest.approx(row["deviation_first"])
    assert np.isnan(row["correlation"])
    back = compare(shallow, deep, X).terms.set_index("term").loc["a & b"]
    assert back["distance"] == pytest.approx(row["distance"])


def test_apparent_is_the_same_function(measures, data):
    d = measures[0]
    before = d.as_trained()
    np.testing.assert_allclose(before.predict(data[0]), d.predict(data[0]), atol=1e-12)
    compared = compare(before, d)
    assert compared.names == ("as trained", "purified")
    assert compare(d, before).names == ("purified", "as trained")
    shares = compared.orders.set_index("order")
    assert shares.loc[1, "share_first"] < shares.loc[1, "share_second"]
    np.testing.assert_allclose(shares.sum(), 1.0)
    raw = d["a", "b"].raw[..., 0]
    np.testing.assert_allclose(
        before["a", "b"].values[..., 0], raw - np.sum(d["a", "b"].mass * raw), atol=1e-14
    )


def test_several_outputs(data):
    X, y = data
    model = GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0)
    model.fit(X, np.digitize(y, [-0.5, 0.5]))
    compared = compare(
        tp.purify(model, X, weights="empirical"), tp.purify(model, X, weights="independent")
    )
    assert set(compared.terms["output"]) == {"0", "1", "2"}
    assert compared.terms.groupby("output")["rank_first"].min().eq(1).all()
    assert " on " in compared.verdict()[1]


def test_rank_agreement_is_spearmans(measures):
    from scipy.stats import spearmanr

    compared = compare(*measures)
    table = compared.terms
    truth = spearmanr(table["deviation_first"], table["deviation_second"]).statistic
    assert compared.rank_agreement == pytest.approx(truth)


def with_noise(d, seed=0, **factors):
    """Return a decomposition whose tables differ by rounding, and some effects by a factor."""
    rng = np.random.default_rng(seed)
    scale = 1e-14 * np.sqrt(max(c.variance[0] for c in d.components.values()))
    components = {}
    for subset, component in d.components.items():
        noise = scale * rng.normal(size=component.values.shape)
        values = factors.get(d.term_name(subset), 1.0) * component.values + noise
        components[subset] = replace(component, values=values)
    return replace(d, components=components, stored_covariances=None)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "sklearn"])
def test_effects_that_are_equal_to_rounding_have_no_ranks_and_no_signs(library):
    X, y = rows()
    X["unused"] = 0.0
    model = {
        "xgboost": xgboost.XGBRegressor(n_estimators=20, max_depth=2),
        "lightgbm": lightgbm.LGBMRegressor(n_estimators=20, max_depth=2, verbose=-1),
        "sklearn": GradientBoostingRegressor(n_estimators=20, max_depth=2, random_state=0),
    }[library].fit(X, y + 1000.0)
    d = tp.purify(model, X, weights="empirical", progress=False)
    # The same rows in another order are added up in another order.
    again = tp.purify(model, X.iloc[::-1], weights="empirical", progress=False)
    compared = compare(d, again)
    lines = compared.verdict()
    assert len(lines) == 2
    assert lines[1].startswith("All effects are equal to rounding: the largest difference is ")
    assert compared.rank_agreement == 1.0
    assert (compared.terms["rank_first"] == compared.terms["rank_second"]).all()
    shifted = replace(again, intercept=again.intercept + 1.0)
    assert "intercepts differ by +1" in repr(compare(d, shifted))
    # Of effects that differ, only the digits that rounding leaves alone decide on order and rank.
    without, other = with_noise(d, a=1.5), with_noise(again, seed=1, a=1.5)
    first, second = compare(d, without), compare(d, other)
    assert list(first.terms["term"]) == list(second.terms["term"])
    assert first.terms["term"][0] == "a"
    assert first.rank_agreement == second.rank_agreement
    assert "The effect that differs most is a" in repr(second)


def test_an_effect_of_rounding_noise_has_no_rank(model, data):
    d = tp.purify(model, data[0], weights="empirical", progress=False)
    nothing = with_noise(d, **{d.term_name(s): 0.0 for s in d.components if len(s) == 2})
    both = compare(nothing, with_noise(nothing, seed=1))
    pairs = both.terms[both.terms["order"] == 2]
    assert 0 < pairs["deviation_first"].max() < 1e-12
    assert pairs["rank_first"].nunique() == 1
    assert both.rank_agreement == 1.0


@pytest.mark.parametrize("kind", [GradientBoostingRegressor, xgboost.XGBRegressor])
def test_no_order_is_said_to_bring_a_projection_closer(kind):
    X = pd.DataFrame(np.random.default_rng(1).integers(-1, 2, (300, 3)), columns=list("abc"))
    deep = kind(n_estimators=25, max_depth=3, random_state=0)
    deep.fit(X, X["a"] * X["b"] * X["c"] + X["a"])
    a = tp.purify(deep, X, weights="empirical", progress=False)
    b = tp.categorical_anova(deep, X, order=1, progress=False)
    said = repr(compare(a, b))
    assert "agree only if the remainder is orthogonal to the fitted effects." in said
    assert "larger order" not in said


def test_what_cannot_be_compared(measures, data):
    a, b = measures
    X, y = data
    other = tp.purify(
        fitted(X.rename(columns={"c": "z"}), y), X.rename(columns={"c": "z"}), weights="empirical"
    )
    with pytest.raises(tp.errors.InvalidInputError, match=r"different features \(c, z\)"):
        compare(a, other)
    with pytest.raises(tp.errors.InvalidInputError, match="pass X"):
        compare(a, b, sample_weight=np.ones(len(X)))
    with pytest.raises(
        tp.errors.InvalidInputError, match="sample_weight must have one number per row"
    ):
        compare(a, b, X, sample_weight=np.ones(3))
    for wrong in (np.inf, np.nan, -1.0):
        with pytest.raises(tp.errors.InvalidInputError, match="must be finite and not negative"):
            compare(a, b, X, sample_weight=[wrong, *np.ones(399)])
    with pytest.raises(tp.errors.InvalidInputError, match="zero for every row"):
        compare(a, b, X, sample_weight=np.zeros(400))
    with pytest.raises(tp.errors.InvalidInputError, match="names must be 2 different names"):
        compare(a, b, names=["one"])
    classes = GradientBoostingClassifier(n_estimators=2, max_depth=2, random_state=0)
    three = tp.purify(classes.fit(X, np.digitize(y, [-0.5, 0.5])), X, weights="empirical")
    with pytest.raises(tp.errors.InvalidInputError, match="1 and 3 outputs"):
        compare(a, three, X)


def test_only_ratios_of_weights_count(measures, data):
    """Also where their sum is too large for a number."""
    a, b = measures
    X, _ = data
    weights = np.random.default_rng(3).integers(1, 4, size=400).astype(float)
    small = compare(a, b, X, sample_weight=weights)
    large = compare(a, b, X, sample_weight=weights * 2.0**1021)
    pd.testing.assert_frame_equal(small.terms, large.terms)


def test_rows_of_the_table_know_their_features(measures):
    a, b = measures
    compared = compare(a, b)
    assert [a.term_name(subset) for subset in compared.subsets] == list(compared.terms["term"])
    assert list(map(len, compared.subsets)) == list(compared.terms["order"])


def test_constant_models(data):
    X, y = data
    d = tp.purify(fitted(X, y * 0 + 1.0), X, weights="empirical")
    assert "Both are constant" in repr(compare(d, d, X))


def test_verdict_can_be_quoted(measures):
    lines = compare(*measures).verdict()
    assert lines[0] == "Comparing empirical with uniform, averaged over the 400 rows (empirical)."
    assert lines[1].startswith("The effect that differs most is ")
    assert any("Rank correlation" in line for line in lines)
    assert any(line.startswith("Main effects account for ") for line in lines)


def test_sides_are_called_by_their_names_in_every_sentence(model, data, measures):
    X, y = data
    other = tp.purify(fitted(X, -y, depth=1), X, weights="empirical")
    for names in (("champion", "challenger"), None):
        c = compare(measures[0], other, X, names=names)
        first, second = names or ("the first", "the second")
        assert c.names == (first, second)
        said = repr(c)
        place = c.places.iloc[0]
        assert f"{place['first']:+.3g} ({first}), {place['second']:+.3g} ({second})" in said
        shares = c.orders.set_index("order").loc[1]
        carried = f"{shares['share_first']:.0%} ({first}), {shares['share_second']:.0%} ({second})"
        assert f"Main effects account for {carried} of the variance of the predictions" in said
        if names is not None:
            assert "first" not in said
            assert "second" not in said
    by_cells = tp.purify(model, weights="uniform")
    both = (by_cells, by_cells.as_trained())
    assert compare(*both, names=("pure", "raw")).mass == "the distribution of pure (uniform)"
    assert compare(*both).mass == "the distribution (uniform)"


def test_words_of_regions():
    axis = FeatureAxis("age", np.array([30.0, 50.0, 70.0]), has_missing=True)
    chosen = np.array([True, False, True, True, True])
    runs = runs_of_cells(axis, chosen, np.ones(5))
    assert [cells_in_words(axis, run) for run in runs] == ["age < 30", "age >= 50", "age missing"]
    assert cells_in_words(axis, [0, 1, 2, 3]) == "age anywhere"
    colour = FeatureAxis("colour", None, ("red", "green", "blue"))
    (run,) = runs_of_cells(colour, np.array([True, False, True]), np.array([1.0, 0.0, 2.0]))
    assert cells_in_words(colour, run) == "colour = red, blue"


def test_regions_have_one_sign():
    axis = FeatureAxis("age", np.array([30.0, 50.0, 70.0]), has_missing=True)
    effect = np.array([1.0, 2.0, -1.0, -2.0, -3.0])
    assert runs_of_cells(axis, np.ones(5, dtype=bool), effect) == [[0, 1], [2, 3], [4]]
    colour = FeatureAxis("colour", None, ("red", "green", "blue"))
    signs = np.array([1.0, -1.0, 2.0])
    assert runs_of_cells(colour, np.ones(3, dtype=bool), signs) == [[0, 2], [1]]


def test_models_of_opposite_sign_differ_in_sign_where_each_is_far_from_zero(data):
    """One is the other's negative: neighbouring places of either sign do not cancel."""
    X, y = data
    compared = compare(
        tp.purify(fitted(X, y), X, weights="empirical"),
        tp.purify(fitted(X, -y), X, weights="empirical"),
    )
    places = compared.places
    assert len(places) > 2
    np.testing.assert_allclose(places["first"], -places["second"], rtol=1e-6)
    assert set(np.sign(places["first"])) == {-1.0, 1.0}
    sizes = compared.terms.set_index("term")["deviation_first"]
    assert np.all(np.abs(places["first"]) > 1e-3 * sizes[places["term"]].to_numpy())


def test_the_table_to_read_has_the_sides_by_name():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    model = GradientBoostingRegressor(n_estimators=5, max_depth=2).fit(X, X[:, 0] * X[:, 1])
    a, b = (tp.purify(model, X, weights=w, progress=False) for w in ("empirical", "uniform"))
    c = tp.compare(a, b, names=("rows", "grid"))
    frame = c.to_frame()
    assert list(frame["effect"]) == list(c.terms["term"])
    np.testing.assert_array_equal(frame["size in grid"], c.terms["deviation_second"])
    np.testing.assert_array_equal(frame["rank in rows"], c.terms["rank_first"])
    assert "output" not in frame
    assert "size in rows" in c._repr_html_()


def test_rows_known_by_fine_cells_are_compared_with_coarser_cells():
    """The first trees of a model have some of its cuts: no rows need to be passed."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=list("abc"))
    model = GradientBoostingRegressor(n_estimators=12, max_depth=2, random_state=0)
    whole = tp.parse_model(model.fit(X, X["a"] * X["b"] + X["c"]))
    n_nodes = int(whole.tree_ptr[6])
    by_node = ("feature", "cut", "left", "right", "missing_left", "category_ptr", "value", "cover")
    parts = {name: getattr(whole, name)[:n_nodes] for name in by_node}
    half = replace(whole, tree_ptr=whole.tree_ptr[:7], tree_output=whole.tree_output[:6], **parts)
    a, b = (tp.purify(each, X, weights="empirical", progress=False) for each in (whole, half))
    uniform = tp.purify(half, weights="uniform", progress=False)
    for other in (b, uniform):
        own, given = tp.compare(a, other), tp.compare(a, other, X)
        whose = " of the first" if other is b else ""
        assert own.mass == f"the 300 rows{whose} (empirical)"
        for name in ("distance", "sign_changes", "deviation_second"):
            np.testing.assert_allclose(own.terms[name], given.terms[name], atol=1e-12)
        turned = tp.compare(uniform, a)
        assert turned.mass == "the 300 rows (empirical)"
    # Cells of the whole model end within those of half of it.
    with pytest.raises(tp.errors.InvalidInputError, match="pass X"):
        tp.compare(b, tp.purify(whole, weights="uniform", progress=False))


@pytest.mark.filterwarnings("ignore")
def test_a_machine_under_rows_is_compared_with_its_own_bins():
    glassbox = pytest.importorskip("interpret.glassbox")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=200), "k": rng.choice(["u", "v"], 200)})
    machine = glassbox.ExplainableBoostingRegressor(
        interactions=1, max_rounds=20, outer_bags=1, n_jobs=1
    ).fit(X, X["a"] * (X["k"] == "u"))
    rows, own = (
        tp.purify(machine, X, weights="empirical", progress=False),
        tp.purify(machine, progress=False),
    )
    found, given = tp.compare(rows, own), tp.compare(rows, own, X)
    np.testing.assert_allclose(found.terms["distance"], given.terms["distance"], atol=1e-12)
    assert found.terms["distance"].max() > 0
