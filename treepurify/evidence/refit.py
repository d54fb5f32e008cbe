"""Train a model again and again, on drawn rows, without a part of the rows, or with other seeds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from treepurify.arguments import brief, check_choice, check_whole
from treepurify.errors import InvalidInputError
from treepurify.models.refits import Refits
from treepurify.progress import progress_report
from treepurify.rows.row_weights import read_row_weights
from treepurify.rows.table_reader import check_different
from treepurify.rows.tables import check_table, frame_or_matrix, is_sparse, table_names, take_rows
from treepurify.threads import iterate_threads
from treepurify.typing import Array, Indices

How = Literal["bootstrap", "folds", "seeds"]

_MOST_SEED = 2**31 - 1
_MOST_DRAWS = 100


def refit(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    n: int = 20,
    how: How = "bootstrap",
    sample_weight: npt.ArrayLike | None = None,
    seed: int = 0,
    progress: bool = True,
) -> list[Any]:
    """Train a model `n` times, to see how much its effects differ between trainings.

    The meaning of the differences depends on `how`:

    * ``"bootstrap"``: rows drawn with replacement (the same number as in `X`) and a new seed. The
      differences estimate those between trainings on other rows of the same population. A refit
      sees only 63% of the rows, some of them several times, so it is slightly less smooth than
      the model itself; if a model overfits, the differences are too large.
    * ``"folds"``: each training leaves out one of `n` parts of the rows and uses a new seed. Any
      two refits share most of their rows, so their differences underestimate those between samples.
    * ``"seeds"``: the same rows with a new seed. The differences show the randomness of the
      training alone; they are zero for a model without randomness.

    Parameters
    ----------
    estimator : object with ``fit`` and ``get_params``
        An estimator with the API of scikit-learn, trained or not, or a pipeline. It is not changed.
    X : array_like or table of shape (n_rows, n_features)
        The training rows.
    y : array_like of shape (n_rows,) or (n_rows, n_targets)
        The targets. Every class is present in every training.
    n : int
        Number of trainings, two or more.
    how : {"bootstrap", "folds", "seeds"}
        The difference between trainings; see above.
    sample_weight : array_like of shape (n_rows,), optional
        Weight of each row, finite and not negative. It is passed on to ``fit``.
    seed : int
        Seed of the draws and of the seeds.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    list of object
        The trained models, for ``refits`` of `purify`, which says how they were trained.

    Raises
    ------
    InvalidInputError
        If an option cannot be used, the estimator cannot be trained, or it does not accept a seed
        or weights that it needs.

    See Also
    --------
    purify : Main effects and interactions of a tree model.
    with_sampling_error : The error of effects because the rows are a sample.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> X = np.random.default_rng(0).uniform(size=(200, 2))
    >>> models = tp.refit(HistGradientBoostingRegressor(max_iter=10), X, X[:, 0], n=5)
    >>> len(models)
    5
    """
    check_whole("n", n, 2)
    check_choice("how", how, get_args(How))
    check_whole("seed", seed, 0)
    report = progress_report(progress)
    training = _read_training(estimator, X, y, sample_weight)
    rng = np.random.default_rng(seed)
    rows = _choose_rows(rng, training, n, how)
    seeds = rng.integers(_MOST_SEED, size=n)
    if how == "seeds" and not training.seeds:
        raise InvalidInputError(
            f"{type(estimator).__name__} takes no random_state, so other seeds change nothing: "
            'use how="bootstrap" or how="folds"'
        )

    def train(number: int) -> Any:
        return training.fitted(rows[number], int(seeds[number]))

    models = []
    for model in iterate_threads(train, range(n)):
        models.append(model)
        report("training models again", len(models), n)
    return Refits(models, _HOW[how])


_HOW: dict[How, str] = {"bootstrap": "bootstrap", "folds": "folds left out", "seeds": "other seeds"}


@dataclass(frozen=True, eq=False)
class _Training:
    """An estimator with what it is trained on, and the names of its seeds.

    `labels` are the classes of a classifier, one for each row; `row_weights` None for equal ones.
    """

    clone: Callable[[], Any]
    X: Any
    y: npt.NDArray[Any]
    row_weights: Array | None
    seeds: tuple[str, ...]
    labels: Indices | None

    @property
    def n_rows(self) -> int:
        return len(self.y)

    def fitted(self, rows: Indices | None, seed: int) -> Any:
        """Return the estimator trained on some rows; on all for None."""
        X, y, weights = self.X, self.y, self.row_weights
        if rows is not None:
            X, y = take_rows(X, rows), y[rows]
            weights = None if weights is None else weights[rows]
        more = {} if weights is None else {"sample_weight": weights}
        try:
            model = self.clone()
            if self.seeds:
                model.set_params(**dict.fromkeys(self.seeds, seed))
            return model.fit(X, y, **more)
        except Exception as error:
            raise InvalidInputError(
                f"the estimator could not be trained again: {type(error).__name__}: {error}"
            ) from error


def _read_training(estimator: Any, X: Any, y: Any, sample_weight: Any) -> _Training:
    from sklearn.base import clone, is_classifier
    from sklearn.utils.validation import has_fit_parameter

    if isinstance(estimator, type) or not (
        hasattr(estimator, "fit") and hasattr(estimator, "get_params")
    ):
        raise InvalidInputError(
            "refit needs an estimator with fit and get_params, such as "
            f"HistGradientBoostingRegressor(); got {brief(estimator)}. Train other models "
            "yourself, and pass a list of them to purify"
        )
    check_table(X)
    check_different(table_names(X) or [])
    try:
        targets = np.asarray(y)
    except ValueError as error:
        raise InvalidInputError(
            f"y must have one target for each row, got {brief(y)} ({error})"
        ) from error
    n_rows = X.shape[0] if is_sparse(X) else frame_or_matrix(X).shape[0]
    if targets.ndim == 0 or len(targets) != n_rows or n_rows < 2:
        raise InvalidInputError(
            f"y must have one target for each of the {n_rows} rows, at least two in all; got "
            f"{brief(y) if targets.ndim == 0 else len(targets)}"
        )
    weights = read_row_weights(sample_weight, n_rows)
    if weights is not None and not has_fit_parameter(estimator, "sample_weight"):
        raise InvalidInputError(
            f"fit of {type(estimator).__name__} takes no sample_weight: leave it out"
        )
    names = [name for name in estimator.get_params() if _is_seed(name)]
    # CatBoost lists only what was set.
    if not names and type(estimator).__module__.startswith("catboost."):
        names = ["random_seed"]
    labels = None
    if is_classifier(estimator) and targets.ndim == 1:
        labels = np.unique(targets, return_inverse=True)[1].astype(np.intp)
    return _Training(lambda: clone(estimator), X, targets, weights, tuple(names), labels)


def _is_seed(name: str) -> bool:
    return name.rpartition("__")[2] in ("random_state", "random_seed")


def _choose_rows(
    rng: np.random.Generator, training: _Training, n: int, how: How
) -> list[Indices | None]:
    """Return the rows of each training; None for all rows."""
    n_rows = training.n_rows
    if how == "seeds":
        return [None] * n
    if how == "folds":
        if n > n_rows:
            raise InvalidInputError(f"n={n} folds need at least {n} rows; X has {n_rows}")
        fold = _folds(rng, training, n)
        chosen: list[Indices | None] = [np.flatnonzero(fold != part) for part in range(n)]
        return [_with_all_classes(rows, training) for rows in chosen]
    return [_drawn(rng, training) for _ in range(n)]


def _folds(rng: np.random.Generator, training: _Training, n: int) -> Indices:
    """Return the part of each row: parts of one size, with equal shares of each class."""
    order = rng.permutation(training.n_rows)
    if training.labels is not None:
        order = order[np.argsort(training.labels[order], kind="stable")]
    fold = np.empty(training.n_rows, dtype=np.intp)
    fold[order] = np.arange(training.n_rows) % n
    return fold


def _drawn(rng: np.random.Generator, training: _Training) -> Indices:
    for _ in range(_MOST_DRAWS):
        rows = np.sort(rng.integers(training.n_rows, size=training.n_rows))
        if _has_all_classes(rows, training):
            return rows
    return _with_all_classes(rows, training)


def _has_all_classes(rows: Indices | None, training: _Training) -> bool:
    labels = training.labels
    return labels is None or len(np.unique(labels[rows])) == int(labels.max()) + 1


def _with_all_classes(rows: Indices | None, training: _Training) -> Indices:
    if rows is None or not _has_all_classes(rows, training):
        raise InvalidInputError(
            "a class is so rare that a training would not see it: leave its rows out, or use "
            'how="seeds"'
        )
    return rows
