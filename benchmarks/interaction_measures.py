"""How long do measures of interaction take for a deep model of few rows?

XGBoost at its defaults but for 300 trees, on the 768 rows of the Pima diabetes data: interaction
indices, H-statistics of all features and pairs, and Shapley Sets, medians after a warm-up each.
There is no peer that computes them exactly.
Run: ``python benchmarks/interaction_measures.py``.
"""

import sys
from pathlib import Path

import xgboost
from timing import alternate

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import treepurify as tp
from examples.data import read_table

ROUNDS = 5


def main() -> None:
    """Print seconds."""
    table = read_table("pima_diabetes")
    X, y = table.drop(columns="Outcome"), table["Outcome"]
    model = xgboost.XGBClassifier(n_estimators=300).fit(X, y)
    medians = alternate(
        {
            "interaction_indices": lambda: tp.interaction_indices(model, X, progress=False),
            "h_statistics": lambda: tp.h_statistics(model, X, progress=False),
            "shapley_sets": lambda: tp.shapley_sets(model, X, progress=False),
        },
        ROUNDS,
    )
    print(f"300 trees of depth 6, {len(X)} rows, {X.shape[1]} features (medians of {ROUNDS})")
    for name, seconds in medians.items():
        print(f"  {name:<20} {seconds:.2f} s")


if __name__ == "__main__":
    main()
