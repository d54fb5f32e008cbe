"""Several trainings of one model, kept together: what was trained, and how."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treepurify.errors import InvalidInputError, UnsupportedModelError

__all__ = ["Refits", "ebm_bags"]


@dataclass(frozen=True, eq=False, repr=False)
class Refits(Sequence[Any]):
    """Several trainings of one model, for `treepurify.purify`.

    Parameters
    ----------
    models : tuple of object
        Two or more trained models, model files, or what `parse_model` returned.
    of : object, optional
        The model that is decomposed, of which `models` are repeated trainings; their mean by
        default. Its effects are computed on the common grid of all models. If features depend on
        each other, they can differ from those of ``purify(of, X)``.
    how : str
        How the models were trained, in words, such as ``"bootstrap"``.

    Raises
    ------
    InvalidInputError
        If there are fewer than two models, or one of them is None.

    See Also
    --------
    treepurify.refit : Train an estimator several times.
    treepurify.purify : Effects of several trainings, with their spread.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(300, 2))
    >>> y = X[:, 0] + rng.normal(size=300)
    >>> shipped = GradientBoostingRegressor(max_depth=2, n_estimators=20).fit(X, y)
    >>> others = tp.refit(shipped, X, y, n=4, progress=False)
    >>> d = tp.purify(tp.Refits(others, of=shipped), X)
    >>> bool(np.allclose(d.predict(X), shipped.predict(X)))
    True
    >>> d.spread.n_models
    4
    """

    models: Any
    of: Any = None
    how: str = ""

    def __post_init__(self) -> None:
        given = self.models
        if not isinstance(given, Sequence) or isinstance(given, str | bytes) or len(given) < 2:
            raise InvalidInputError(
                "refits are two or more trained models in a list, such as those that tp.refit "
                f"returns; got {type(given).__name__}"
                + (f" of {len(given)}" if isinstance(given, Sequence) else "")
            )
        if any(model is None for model in given):
            raise InvalidInputError("refits contains None in place of a trained model")
        if not isinstance(self.how, str):
            raise InvalidInputError(f"how must be text, got {type(self.how).__name__}")
        if isinstance(given, Refits) and not self.how:
            object.__setattr__(self, "how", given.how)
        object.__setattr__(self, "models", tuple(given))

    def __len__(self) -> int:
        """Return the number of models."""
        return len(self.models)

    def __getitem__(self, position: Any) -> Any:
        """Return one of the models."""
        return self.models[position]

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the models."""
        return iter(self.models)

    def __repr__(self) -> str:
        """Return how many models there are, and how they were trained."""
        how = f", {self.how}" if self.how else ""
        return f"{type(self).__name__}({len(self)} models{how})"


def ebm_bags(ebm: Any) -> Refits:
    """Return the bags of an explainable boosting machine as separate models.

    interpret trains an EBM several times, each time on different rows (its outer bags), and
    stores the scores of each; the EBM is their mean. The error bars of an EBM are the
    standard deviations of these scores. They include variation that only moves between main
    effects and pairs. Purified bags do not have it.

    Parameters
    ----------
    ebm : interpret.glassbox.ExplainableBoostingRegressor or similar
        A trained EBM with two outer bags or more.

    Returns
    -------
    Refits
        The bags, as EBMs that can predict, as trainings of the EBM itself.

    Raises
    ------
    UnsupportedModelError
        If the model is not a trained EBM, or does not contain the scores of at least two bags.

    See Also
    --------
    refit : Several trainings of one model.
    purify : Main effects and interactions of a tree model.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from interpret.glassbox import ExplainableBoostingRegressor
    >>> X = np.random.default_rng(0).uniform(size=(200, 2))
    >>> ebm = ExplainableBoostingRegressor(outer_bags=3, max_rounds=20).fit(X, X[:, 0])
    >>> tp.purify(tp.ebm_bags(ebm), X).spread.n_models
    3
    """
    scores = getattr(ebm, "bagged_scores_", None)
    intercepts = getattr(ebm, "bagged_intercept_", None)
    if scores is None or intercepts is None or len(intercepts) < 2:
        raise UnsupportedModelError(
            f"this {type(ebm).__name__} does not contain the scores of two bags or more: train an "
            "ExplainableBoostingRegressor or ExplainableBoostingClassifier with outer_bags=2 or "
            "more. Editing and merging may have dropped them"
        )
    bags = []
    for bag in range(len(intercepts)):
        alone = copy.copy(ebm)
        alone.term_scores_ = [of_term[bag] for of_term in scores]
        own = intercepts[bag]
        alone.intercept_ = float(own) if isinstance(ebm.intercept_, float) else np.atleast_1d(own)
        bags.append(alone)
    return Refits(tuple(bags), of=ebm, how="bags of an EBM")
