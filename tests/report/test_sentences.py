"""What the sentences of a report say is what the numbers of the decomposition are."""

import re

import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.tree import DecisionTreeRegressor

import treepurify as tp
from tests.test_ranking import of_effects, planted
from treepurify.report.sentences import model_statements
from treepurify.verdict import shares_words

NUMBER = r"[+\N{MINUS SIGN}]?\d[\d.]*"


def numbers(text):
    return [float(found.replace("\N{MINUS SIGN}", "-")) for found in re.findall(NUMBER, text)]


def rows():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.uniform(20, 60, 2000),
            "hour": rng.integers(0, 24, 2000).astype(float),
            "kind": pd.Categorical(rng.choice(["red", "green", "blue"], 2000)),
            "open": rng.integers(0, 2, 2000).astype(float),
        }
    )


@pytest.fixture(scope="module")
def d():
    X = rows()
    is_late = X["hour"] >= 12
    y = 0.2 * X["age"] + 4 * (X["kind"] == "red") + 3 * is_late * (X["open"] - 0.5)
    model = xgboost.XGBRegressor(n_estimators=60, max_depth=2, enable_categorical=True, n_jobs=1)
    return tp.purify(model.fit(X, y), X, weights="empirical", progress=False)


@pytest.fixture(scope="module")
def statements(d):
    return {statement.effects: statement for statement in model_statements(d, 9)}


def test_the_first_sentence_has_the_shares_of_the_ranking(d, statements):
    text, (first, *_) = statements[()].text, model_statements(d)
    assert first == statements[()]
    named = re.findall(rf"([^,.]+?) \(({NUMBER})%\)", text.replace(" and ", ", "))
    assert [name.strip() for name, _ in named] == [
        d.term_name(subset) for subset in d.ranking.order[: len(named)]
    ]
    shares = [d.ranking.shares[subset] for subset in d.ranking.order[: len(named)]]
    np.testing.assert_allclose([float(own) / 100 for _, own in named], shares, atol=5e-3)
    (together,) = re.findall(rf"account for ({NUMBER})%", text)
    assert float(together) / 100 == pytest.approx(sum(shares), abs=6e-3)
    assert text.endswith(f". {shares_words(d, d.ranking)}")


def test_a_rising_effect_is_told_by_means_over_rows(d, statements):
    text = statements[(0,),].text
    found = re.fullmatch(
        rf"On average, the prediction rises with age: the effect is ({NUMBER}) where "
        rf"age < ({NUMBER}) and ({NUMBER}) where age \N{{GREATER-THAN OR EQUAL TO}} ({NUMBER})\.",
        text,
    )
    low, below, high, above = (numbers(own)[0] for own in found.groups())
    X = rows()
    effect = d.contributions(X)["age"].to_numpy()
    assert low == pytest.approx(effect[X["age"] < below].mean(), rel=0.02)
    assert high == pytest.approx(effect[X["age"] >= above].mean(), rel=0.02)
    # A tenth of the rows each.
    assert 0.05 < np.mean(X["age"] < below) < 0.15
    assert 0.05 < np.mean(X["age"] >= above) < 0.15


def test_categories_are_named(d, statements):
    text = statements[(2,),].text
    effect = d.contributions(rows())["kind"].groupby(rows()["kind"], observed=True).mean()
    assert f"highest where kind = {effect.idxmax()} (" in text
    assert f"lowest where kind = {effect.idxmin()} (" in text
    assert numbers(text)[0] == pytest.approx(effect.max(), rel=6e-3)
    assert numbers(text)[1] == pytest.approx(effect.min(), rel=6e-3)


def test_a_pair_is_told_where_it_is_highest_and_lowest(d, statements):
    text = statements[(1, 3),].text
    X = rows()
    effect = d.contributions(X)["hour & open"]
    found = re.search(rf"adds to .*? ({NUMBER}) where (.*?), and ({NUMBER}) where (.*?), on", text)
    for value, where in ((found[1], found[2]), (found[3], found[4])):
        at, is_open = re.fullmatch(r"hour (.*) and open = ([01])", where).groups()
        ends = [float(own) for own in re.findall(r"\d+", at)]
        low = ends[0] if at.startswith(("is", "\N{GREATER-THAN OR EQUAL TO}")) else 0
        high = 23 if at.startswith("\N{GREATER-THAN OR EQUAL TO}") else ends[-1]
        chosen = X["hour"].between(low, high) & (X["open"] == float(is_open))
        assert numbers(value)[0] == pytest.approx(effect[chosen].mean(), rel=6e-3)


def test_two_peaks_in_a_day_do_not_cancel():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"hour": rng.integers(0, 24, 8000), "open": rng.integers(0, 2, 8000)})
    is_peak = X["hour"].between(6, 8) | X["hour"].between(15, 17)
    y = 100.0 * np.where(X["open"] == 1, is_peak, X["hour"].between(9, 14))
    model = xgboost.XGBRegressor(n_jobs=1, max_depth=3).fit(X, y)
    d = tp.purify(model, X, weights="empirical", progress=False)
    text = next(told.text for told in model_statements(d) if "interact" in told.text)
    said = [numbers(each)[0] for each in re.findall(rf"({NUMBER}) where", text)]
    effect = d.components[0, 1].on_rows(X)[:, 0]
    assert max(said) > 0.9 * effect.max()
    assert min(said) < 0.9 * effect.min()


def test_one_row_is_not_quoted():
    X = np.random.default_rng(0).normal(size=(1000, 1))
    X[0] = 50.0
    y = (X[:, 0] > 0) + 1000.0 * (X[:, 0] > 40)
    d = tp.purify(GradientBoostingRegressor(max_depth=1).fit(X, y), X, weights="empirical")
    assert d["x0"].values.max() > 500
    text = model_statements(d)[1].text
    assert "rises with x0" in text
    assert max(numbers(text.rstrip(".").split("effect is", 1)[1])) < 50


def test_a_flat_stretch_is_quoted_as_a_whole():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, size=(3000, 1))
    # Flat up to 3, and from 7 on but for a dip that chance could make.
    y = np.clip(X[:, 0], 3, 7) - 0.3 * (X[:, 0] > 9) + 0.3 * (X[:, 0] < 1)
    d = tp.purify(xgboost.XGBRegressor(n_jobs=1).fit(X, y), X, weights="empirical", progress=False)
    text = model_statements(d)[1].text
    found = re.search(
        rf"highest where x0 \N{{GREATER-THAN OR EQUAL TO}} ({NUMBER}) \(({NUMBER}) on average\) "
        rf"and lowest where x0 < ({NUMBER}) \(({NUMBER})\)",
        text,
    )
    above, top, below, bottom = (numbers(own)[0] for own in found.groups())
    assert 6.5 < above < 8
    assert 2 < below < 3.5
    effect = d.components[0,].on_rows(X)[:, 0]
    assert top == pytest.approx(effect[X[:, 0] >= above].mean(), rel=0.01)
    assert bottom == pytest.approx(effect[X[:, 0] < below].mean(), rel=0.01)


@pytest.mark.parametrize("n_equal", [4, 6, 8])
def test_effects_of_nearly_the_named_size_are_named_or_counted(n_equal):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(2000, 9)), columns=list("abcdefghi"))
    y = X.iloc[:, :n_equal].sum(axis=1) + 0.3 * X["i"]
    model = GradientBoostingRegressor(max_depth=1, random_state=0).fit(X, y)
    d = tp.purify(model, X, weights="empirical", progress=False)
    _, _, said = model_statements(d)[0].text.partition("of the variance of the predictions. ")
    others = [d.term_name(subset) for subset in d.ranking.order[3:n_equal]]
    own = [rf"{name} \({NUMBER}%\)" for name in others]
    expected = {
        4: f"{own[0]} follows closely.",
        6: f"{', '.join(own[:-1])} and {own[-1]} follow closely.",
        8: f"The next 5, from {own[0]} to {own[-1]}, follow closely.",
    }
    assert re.fullmatch(rf"{expected[n_equal]} Main effects 100%\.", said)


def test_effects_that_cancel_are_one_statement():
    X, y = planted()
    d = of_effects(y, X)
    (group,) = d.ranking.groups
    told = model_statements(d)
    (together,) = [statement for statement in told if len(statement.effects) > 1]
    assert together.effects == group.members
    assert group.sentence in together.text
    assert f"{' and '.join(group.names)} together" in told[0].text


def test_outputs_and_scales_have_their_names():
    X = rows().drop(columns="kind")
    y = np.digitize(X["age"], [30, 45])
    model = RandomForestClassifier(n_estimators=5, max_depth=2, random_state=0).fit(X, y)
    d = tp.purify(model, X, weights="empirical", progress=False)
    statement = model_statements(d)[1]
    assert f"robability of class {d.output_names[statement.output]} " in statement.text
    binary = xgboost.XGBClassifier(n_estimators=5, max_depth=1, n_jobs=1).fit(X, X["age"] > 40)
    assert "the log-odds rise with age" in model_statements(tp.purify(binary, X))[1].text


def test_a_constant_model_has_no_sentences():
    X = np.zeros((5, 2))
    d = tp.purify(DecisionTreeRegressor().fit(X, np.ones(5)), X, weights="empirical")
    assert model_statements(d) == []
