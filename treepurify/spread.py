"""How much effects differ between trainings of one model: every effect of each, and bands."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.arguments import brief, check_flag, check_number
from treepurify.components import TensorComponent
from treepurify.errors import UnknownComponentError
from treepurify.frozen import FrozenMapping
from treepurify.grids.grid import Subset, mean_over_cells
from treepurify.terms import read_features, term_name
from treepurify.typing import Array, Mask

if TYPE_CHECKING:
    import pandas as pd

# The rate of bands and intervals unless the caller says otherwise.
LEVEL = 0.9
# An effect has a clear sign if its bands exclude zero for this part of the distribution. With few
# models some of many bands exclude zero by chance: for 0.3% of it with six, 3% with three.
_CLEAR_PART = 0.05
# A component that is smaller, relative to the largest effect of the same model, is rounding.
_NOTHING = 1e-10


@dataclass(frozen=True, eq=False, repr=False)
class Spread:
    """The effects of several trainings of one model, each of which was purified by itself.

    An effect of a training is averaged over each cell of the same effect of the decomposition. If
    that is of the mean of the trainings, they are purified on its cells, and the mean of their
    effects is its effect. This is the spread of *training*: all models are purified under the same
    rows. The sampling error of these rows is a separate uncertainty; see `treepurify.audit` and
    `treepurify.with_sampling_error`. Effects are on the margin scale.

    Parameters
    ----------
    n_models : int
        Number of trained models.
    how : str
        How they were trained, in words; empty if unknown.
    intercepts : ndarray of float64, shape (n_models, n_outputs)
        Intercept of each model, on the margin scale.
    stacked : mapping of tuple of int to TensorComponent
        The effect of each subset of features, with the outputs of all models, those of the first
        model first: tables of shape (cells..., n_models * n_outputs).
    feature_names : tuple of str
        Names of the features, in the order of the model.
    output_names : tuple of str
        One name per output.
    is_of_mean : bool
        Whether the decomposition is that of their mean, not of a model that was passed.

    See Also
    --------
    treepurify.refit : Several trainings of one model.
    treepurify.plots.main_effect : Figure of one main effect, with the band of trainings.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(300, 2))
    >>> y = X[:, 0] + rng.normal(size=300)
    >>> models = tp.refit(GradientBoostingRegressor(n_estimators=20), X, y, n=8, progress=False)
    >>> d = tp.purify(models, X)
    >>> lower, upper = d.spread.band("x0")
    >>> bool(np.all(lower <= d["x0"].values) and np.all(d["x0"].values <= upper))
    True
    >>> d.spread.standard_deviation("x0").shape == d["x0"].values.shape
    True
    """

    n_models: int
    how: str
    intercepts: Array
    stacked: Mapping[Subset, TensorComponent]
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    is_of_mean: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "stacked", FrozenMapping(self.stacked))

    def __repr__(self) -> str:
        """Return the number of models and how they were trained."""
        how = f" ({self.how})" if self.how else ""
        return f"{type(self).__name__}({len(self.stacked)} effects of {self.n_models} models{how})"

    @property
    def n_outputs(self) -> int:
        """Number of outputs of each model."""
        return len(self.output_names)

    def __contains__(self, key: object) -> bool:
        """Return whether the effect of these features is known for each model, as a table."""
        try:
            return read_features(key, self.feature_names) in self.stacked
        except (KeyError, TypeError):
            return False

    def values(self, key: str | int | tuple[str | int, ...]) -> Array:
        """Return one effect in each model, shape (n_models, cells..., n_outputs).

        Parameters
        ----------
        key : str, int or tuple
            The features, by name or position.

        Raises
        ------
        UnknownComponentError
            If there is no such effect, or it is not a table.
        """
        table = self.stacked[self._known(key)].values
        apart = table.reshape(*table.shape[:-1], self.n_models, self.n_outputs)
        return np.moveaxis(apart, -2, 0)

    def mean(self, key: str | int | tuple[str | int, ...]) -> Array:
        """Return the mean of one effect over the models, shape (cells..., n_outputs)."""
        return np.asarray(self.values(key).mean(axis=0))

    def standard_deviation(self, key: str | int | tuple[str | int, ...]) -> Array:
        """Return how much one effect differs from model to model, shape (cells..., n_outputs).

        This is the sample standard deviation over the models (with ``n_models - 1`` in the
        denominator).
        """
        return np.asarray(self.values(key).std(axis=0, ddof=1))

    def standard_error(self, key: str | int | tuple[str | int, ...]) -> Array:
        """Return the standard error of the mean over the models, shape (cells..., n_outputs).

        It measures how well the mean is known and falls with the number of models. For the range of
        one more model see `band`.
        """
        return np.asarray(self.standard_deviation(key) / sqrt(self.n_models))

    def band(
        self,
        key: str | int | tuple[str | int, ...],
        level: float = LEVEL,
        *,
        other_rows: bool = False,
    ) -> tuple[Array, Array]:
        """Return an interval for one more model, trained in the same way, in each cell.

        This is the prediction interval for one more draw from a normal distribution, given
        `n_models` draws: ``mean +- t * sd * sqrt(1 + 1 / n_models)``, where t is the quantile of
        Student's t distribution with ``n_models - 1`` degrees of freedom. `level` applies to each
        cell separately, not to all cells at once.

        By default, the new model is one more bootstrap of the same rows. With `other_rows` it is
        trained on other rows of the same population. Then the factor is ``sqrt(2 + 1 / n_models)``,
        since the rows themselves are also a random draw, with the same variance as a bootstrap of
        them.

        Parameters
        ----------
        key : str, int or tuple
            The features, by name or position.
        level : float
            Coverage of the interval, between 0 and 1: the probability that it contains the value of
            one more model.
        other_rows : bool
            Whether the new model would be trained on other rows, if the refits are bootstraps.

        Returns
        -------
        lower, upper : ndarray of float64, shape (cells..., n_outputs)

        Raises
        ------
        UnknownComponentError
            If there is no such effect.
        InvalidInputError
            If `level` does not lie between 0 and 1.
        """
        check_flag("other_rows", other_rows)
        return one_more_training(self.values(key), level, other_rows=other_rows)

    def covers_zero(self, key: str | int | tuple[str | int, ...], level: float = LEVEL) -> Mask:
        """Return whether the band of one effect includes zero, shape (cells..., n_outputs).

        See `band`.
        """
        lower, upper = self.band(key, level)
        return np.asarray((lower <= 0) & (upper >= 0))

    def no_clear_sign(self, level: float = LEVEL) -> list[tuple[Subset, int]]:
        """Return the effects that have no clear sign.

        The band of such an effect includes zero for more than 95% of the distribution, so one more
        training could raise or lower the prediction nearly anywhere. Elsewhere the band can exclude
        zero by chance, above all if there are few models. An effect that no training has is none.

        Parameters
        ----------
        level : float
            Coverage of the band; see `band`.

        Returns
        -------
        list of (tuple of int, int)
            The features and the output of each effect.
        """
        found = []
        for subset, component in self.stacked.items():
            is_clear = (~self.covers_zero(subset, level)).astype(np.float64)
            clear = mean_over_cells(component.mass, is_clear)
            is_unclear = (clear < _CLEAR_PART) & np.any(self.variances(subset) > 0, axis=0)
            found += [(subset, k) for k in np.flatnonzero(is_unclear).tolist()]
        return found

    def importance(self, level: float = LEVEL) -> "pd.DataFrame":
        """Return intervals for the size that each effect would have in one more model.

        Parameters
        ----------
        level : float
            Coverage of the intervals; see `band`.

        Returns
        -------
        DataFrame
            One row per effect and output, in the order of the effects. ``size_lower`` and
            ``size_upper`` bound the standard deviation that the effect would have in one more
            model; see `size_interval`. A bootstrap sees 63% of the rows, so the size in your own
            model can lie outside. ``training_size`` is the standard deviation of the effect between
            models, the root of the mean square over the cells. ``present`` is the share of the
            models that contain the effect. Sizes are in the units of the margin.
        """
        import pandas as pd

        terms = [term_name(self.feature_names[j] for j in subset) for subset in self.stacked]
        intervals = [self.size_interval(subset, level) for subset in self.stacked]
        between = [np.sqrt(self.training_variance(subset)) for subset in self.stacked]
        numbers = {
            "size_lower": [lower for lower, _ in intervals],
            "size_upper": [upper for _, upper in intervals],
            "training_size": between,
            "present": list(self.present().values()),
        }
        columns: dict[str, Any] = {
            "effect": [term for term in terms for _ in self.output_names],
            "output": [*self.output_names] * len(terms),
            **{name: np.array(values, dtype=float).ravel() for name, values in numbers.items()},
        }
        if self.n_outputs == 1:
            del columns["output"]
        return pd.DataFrame(columns)

    def present(self) -> dict[Subset, Array]:
        """Return the share of the models that have each effect, shape (n_outputs,).

        An effect counts as absent if it is a rounding error compared with the largest effect of its
        model.
        """
        sizes = {subset: self.variances(subset) for subset in self.stacked}
        largest = np.max(
            [np.zeros(self.n_models), *(v.max(axis=1) for v in sizes.values())], axis=0
        )
        return {
            subset: np.asarray((variances > _NOTHING**2 * largest[:, None]).mean(axis=0))
            for subset, variances in sizes.items()
        }

    def size_interval(
        self,
        key: str | int | tuple[str | int, ...],
        level: float = LEVEL,
        *,
        together: bool = False,
    ) -> tuple[Array, Array]:
        """Return an interval for the size that one effect would have in one more model.

        Parameters
        ----------
        key : str, int or tuple
            The features, by name or position.
        level : float
            Coverage of the interval; see `band`.
        together : bool
            Whether the size is the root of the mean square over all outputs.

        Returns
        -------
        lower, upper : ndarray of float64, shape (n_outputs,), or (1,) together
            The limits of the interval for the standard deviation, which is cut off at zero.
        """
        check_flag("together", together)
        variances = self.variances(key)
        sizes = np.sqrt(variances.mean(axis=1, keepdims=True) if together else variances)
        mean, half = sizes.mean(axis=0), _factor(self.n_models, level) * sizes.std(axis=0, ddof=1)
        return np.asarray(np.maximum(mean - half, 0.0)), np.asarray(mean + half)

    def variances(self, key: str | int | tuple[str | int, ...]) -> Array:
        """Return the variance of one effect in each model, shape (n_models, n_outputs)."""
        subset = self._known(key)
        return self.stacked[subset].variance.reshape(self.n_models, self.n_outputs)

    def training_variance(self, key: str | int | tuple[str | int, ...]) -> Array:
        """Return the mean of the squared standard deviation over the cells, shape (n_outputs,)."""
        subset = self._known(key)
        square = self.standard_deviation(subset) ** 2
        return mean_over_cells(self.stacked[subset].mass, square)

    def _known(self, key: Any) -> Subset:
        subset = read_features(key, self.feature_names)
        if subset not in self.stacked:
            raise UnknownComponentError(
                f"the spread of the effect {brief(key)} is not known: only effects that are "
                "stored as tables have one"
            )
        return subset


def one_more_training(
    values: Array, level: float = LEVEL, *, other_rows: bool = False
) -> tuple[Array, Array]:
    """Return where one more model would have what is known of several, such as sums of effects.

    Parameters
    ----------
    values : ndarray of float64, shape (n_models, ...)
        One value, or table of values, per model.
    level : float
        The rate; see `Spread.band`.
    other_rows : bool
        Whether that model would be trained on other rows, where the models are bootstraps.

    Returns
    -------
    lower, upper : ndarray of float64, shape (...)
    """
    mean = values.mean(axis=0)
    half = _factor(len(values), level, other_rows) * values.std(axis=0, ddof=1)
    return np.asarray(mean - half), np.asarray(mean + half)


def _factor(n_models: int, level: float, other_rows: bool = False) -> float:
    """Return the half width of the interval of one more model, in standard deviations."""
    from scipy.special import stdtrit

    check_number("level", level, least=0, most=1, open_ends=True)
    quantile = float(stdtrit(n_models - 1, 0.5 + level / 2))
    return quantile * sqrt(1 + other_rows + 1 / n_models)
