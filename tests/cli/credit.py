"""Simulated applications for credit and models of them, as the files that a validator gets."""

import warnings

import numpy as np
import pandas as pd

FEATURES = ["income", "debt", "late_payments", "employment_years", "age", "purpose"]

ABOUT = """\
title: Probability of default of instalment loans
purpose: Refuses applications whose probability of default is 20% or more.
owner: Credit risk
target: Default within twelve months
data: Simulated applications; sex is recorded, and is no feature.
limits:
  - Loans to companies.
directions:
  income: decreasing
  debt: increasing
  late_payments: increasing
  employment_years: decreasing
  age: decreasing
groups:
  sex: {from: male, to: female}
  age: {cut: 30}
threshold: 0.2
adverse: high
texts:
  income: {high: Income is low for this loan}
  debt: {high: Debt is high}
  late_payments: {high: Payments were late}
"""


def applications(n_rows, seed, shift=0.0):
    """Rows with the target; `shift` lowers all incomes, as a later period might."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["female", "male"], n_rows)
    age = rng.integers(19, 75, n_rows)
    log_income = 10.2 + 0.2 * (sex == "male") + 0.006 * age + rng.normal(0, 0.4, n_rows) - shift
    rows = pd.DataFrame(
        {
            "income": np.exp(log_income).round(),
            "debt": rng.gamma(2.0, 4000.0, n_rows).round(),
            "late_payments": rng.poisson(0.7, n_rows),
            "employment_years": np.minimum(rng.gamma(1.5, 4.0, n_rows), age - 18).round(1),
            "age": age,
            "purpose": rng.choice(["car", "furniture", "holiday"], n_rows, p=[0.5, 0.3, 0.2]),
            "sex": sex,
        }
    )
    odds = (
        -2.9
        - 1.4 * (log_income - 10.6)
        + 0.00008 * rows["debt"]
        + 0.7 * rows["late_payments"]
        - 0.06 * rows["employment_years"]
        + 0.00006 * rows["debt"] * (rows["late_payments"] > 1)
        + 0.5 * (rows["purpose"] == "holiday")
    )
    rows["default"] = (rng.uniform(size=n_rows) < 1 / (1 + np.exp(-odds))).astype(int)
    return rows


def write_files(folder, n_rows=1500, n_trees=100):
    """Write rows, models and the facts about them to a folder."""
    import lightgbm
    import xgboost
    from interpret.glassbox import ExplainableBoostingClassifier

    train, test = applications(n_rows, 0), applications(n_rows, 1)
    train.to_csv(folder / "train.csv", index=False)
    test.to_csv(folder / "test.csv", index=False)
    test.iloc[: n_rows // 2].to_csv(folder / "first_half.csv", index=False)
    applications(n_rows // 2, 2, shift=0.1).to_csv(folder / "second_half.csv", index=False)
    (folder / "about.yaml").write_text(ABOUT, encoding="utf-8")

    X, y = train[FEATURES].astype({"purpose": "category"}), train["default"]
    # Of a default model, only the number of trees is another.
    default = lightgbm.LGBMClassifier(n_estimators=n_trees, verbose=-1, n_jobs=1).fit(X, y)
    default.booster_.save_model(folder / "default.txt")
    for name, seed in (("shallow", 0), ("again", 1), ("once_more", 2)):
        shallow = xgboost.XGBClassifier(
            n_estimators=n_trees // 2, max_depth=2, learning_rate=0.15, subsample=0.8,
            enable_categorical=True, monotone_constraints=(-1, 1, 1, -1, 0, 0), n_jobs=1,
            random_state=seed,
        )  # fmt: skip
        shallow.fit(X, y).save_model(folder / f"{name}.json")
    ebm = ExplainableBoostingClassifier(outer_bags=2, max_rounds=200, interactions=2, n_jobs=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "JSON formats are in beta")
        ebm.fit(train[FEATURES], y).to_json(folder / "ebm.json")
    # A model with a log link, which factor tables need.
    late = xgboost.XGBRegressor(
        objective="count:poisson", n_estimators=20, max_depth=2, n_jobs=1
    ).fit(X[["income", "debt", "age"]], train["late_payments"])
    late.save_model(folder / "late.json")
