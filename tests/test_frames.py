"""Tables of cells and of importance: every column is there, and what is unknown says so."""

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeRegressor

import treepurify as tp
from treepurify.engines.tree.raw_tensors import purify_tensors
from treepurify.report.effects import EffectPages
from treepurify.rows.reduction import RowStream
from treepurify.terms import same_digits


def purified(names, *, n_outputs=1):
    """A decomposition into two main effects and a pair of features with these names."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 3, (200, 2)).astype(float), columns=list(names))
    first, second = (X.iloc[:, j].to_numpy() for j in range(2))
    y = np.column_stack([first * second + (k + 1) * second for k in range(n_outputs)])
    model = DecisionTreeRegressor(max_depth=4).fit(X, y[:, 0] if n_outputs == 1 else y)
    return X, tp.purify(model, X, weights="empirical", progress=False)


NAMES = [
    ("sepal width (cm)", "sepal width"),
    ("mass", "effect"),
    ("raw_effect", "output"),
    ("x", "x (from)"),
    ("x (to)", "x"),
    ("mass", "mass (feature)"),
    ("term", "cell"),
]


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("names", NAMES)
def test_no_name_of_a_feature_is_lost_or_takes_a_column(names, n_outputs):
    """The table of a pair has two labels and four ends of intervals, whatever the names are."""
    X, d = purified(names, n_outputs=n_outputs)
    table = d.to_frame(names)
    component = d[names]
    numbers = ["effect", "raw_effect", "mass"]
    assert list(table)[-3:] == numbers
    assert len(set(table)) == len(list(table)) == 6 + len(numbers) + (n_outputs > 1)
    for k, (output, own) in enumerate(
        table.groupby("output", sort=False) if n_outputs > 1 else [("", table)]
    ):
        assert output in ("", d.output_names[k])
        np.testing.assert_array_equal(own["effect"], component.values[..., k].ravel())
        before = component.raw[..., k] - np.sum(component.mass * component.raw[..., k])
        np.testing.assert_allclose(own["raw_effect"], before.ravel(), atol=1e-12)
        np.testing.assert_array_equal(own["mass"], component.mass.ravel())
    # The cell that holds a row, found by the ends of its intervals, has the effect of the row.
    row = X.iloc[0].to_numpy()
    lower, upper = table.iloc[:, [1, 4]].to_numpy(), table.iloc[:, [2, 5]].to_numpy()
    inside = table[np.all((lower <= row) & (row < upper), axis=1)]
    np.testing.assert_array_equal(inside["effect"], component.on_rows(X.iloc[:1])[0])


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("names", NAMES)
def test_the_long_table_has_the_same_columns_whatever_the_names(names, n_outputs):
    _, d = purified(names, n_outputs=n_outputs)
    table = d.to_frame()
    output = ["output"] * (n_outputs > 1)
    assert list(table) == ["term", "cell", *output, "effect", "raw_effect", "mass"]
    assert not table.drop(columns="raw_effect").isna().any().any()
    for subset, component in d.components.items():
        own = table[table["term"] == d.term_name(subset)]
        np.testing.assert_array_equal(own["effect"], np.moveaxis(component.values, -1, 0).ravel())
        np.testing.assert_array_equal(own["mass"], np.tile(component.mass.ravel(), n_outputs))
        labels = pd.MultiIndex.from_product([axis.labels(exact=True) for axis in component.axes])
        assert list(own["cell"]) == [", ".join(cell) for cell in labels] * n_outputs


def test_only_names_that_are_taken_are_changed():
    _, d = purified(("mass", "mass (feature)"))
    assert list(d.to_frame("mass"))[:3] == [
        "mass (feature)",
        "mass (feature) (from)",
        "mass (feature) (to)",
    ]
    assert d.to_frame(1).columns[0] == "mass (feature) (feature)"
    _, plain = purified(("sepal width (cm)", "age"))
    assert list(plain.to_frame("sepal width (cm)"))[:3] == [
        "sepal width (cm)",
        "sepal width (cm) (from)",
        "sepal width (cm) (to)",
    ]


def test_effects_before_purification_stand_before_the_mass_where_some_are_known():
    pair = np.array([[0.0, 1.0], [2.0, 5.0]])
    d = purify_tensors({(0, 1): pair}, {(0, 1): np.ones((2, 2))})
    assert d[0].raw is None
    assert d[0, 1].raw is not None
    table = d.to_frame()
    assert list(table) == ["term", "cell", "effect", "raw_effect", "mass"]
    known = table[table["raw_effect"].notna()]
    # Mean zero, as in every figure and finding: a constant belongs to the intercept.
    np.testing.assert_allclose(known["raw_effect"], pair.ravel() - 2.0)
    np.testing.assert_allclose(d.as_trained()[0, 1].values.ravel(), known["raw_effect"])
    assert "raw_effect" not in d.to_frame(0)


@pytest.fixture(scope="module")
def with_unknown_variance():
    """Under this measure the remainder has no variance: there is no joint distribution."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (200, 3)).astype(float)
    model = DecisionTreeRegressor(max_depth=3).fit(X, X.prod(axis=1) + X[:, 0])
    return tp.purify(model, X, weights="laplace", order=2, method="mass-moving", progress=False)


def test_shares_of_an_unknown_sum_are_unknown(with_unknown_variance):
    d = with_unknown_variance
    assert np.isnan(d.remainder.variance).all()
    table = d.importance()
    assert table["share"].isna().all()
    known = table[table["effect"] != "remainder"]
    assert list(known["size"]) == sorted(known["size"], reverse=True)
    assert table["effect"].iloc[-1] == "remainder"
    (table,) = EffectPages(d, 0).table().tables
    assert "share" not in table.frame


def test_short_texts_do_not_print_shares_that_are_unknown(with_unknown_variance):
    d = with_unknown_variance
    text = repr(d)
    first = d.importance().iloc[0]
    write = same_digits([first["size"]])
    assert text.splitlines()[2].split() == [first["effect"], write(first["size"])]
    html = d._repr_html_()
    for shown in (text, html):
        assert "nan" not in shown.lower()
        assert "%" not in shown
        assert "an unknown share" in shown


def test_a_constant_model_shares_nothing():
    flat = purify_tensors({(0,): np.zeros(3)}, {(0,): np.ones(3)})
    assert list(flat.importance()["size"]) == [0.0]
    assert "%" not in repr(flat)


def test_short_text_reads_no_rows_in_batches(monkeypatch):
    """Covariances need every row again: the text has no shares until they are there."""
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 2)), columns=["a", "b"])
    model = DecisionTreeRegressor(max_depth=2).fit(X, X["a"] + X["b"])
    d = tp.purify(model, lambda: iter([X[:150], X[150:]]), weights="empirical", progress=False)
    with monkeypatch.context() as patched:
        patched.setattr(RowStream, "reduce", lambda *_: pytest.fail("rows were read"))
        sizes = [line.split()[:2] for line in repr(d).splitlines()[2:]]
        assert "%" not in repr(d)
        assert "Main effects" not in d._repr_html_()
    d.importance()
    assert [line.split()[:2] for line in repr(d).splitlines()[2 : 2 + len(sizes)]] == sizes
    assert "Main effects" in repr(d)
