"""Compare two decompositions: two measures, two engines, two models, before and after."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_result, read_names
from treepurify.budget import DEFAULT_BUDGET
from treepurify.comparing.apparent import BEFORE_AND_AFTER, model_variance, own_distribution
from treepurify.comparing.comparison import Comparison, rounding_errors
from treepurify.comparing.pair_sums import ComponentSums, opposed, row_sums, side_sums
from treepurify.comparing.regions import cells_in_words, runs_of_cells
from treepurify.comparing.shared_cells import side_by_side
from treepurify.components import TensorComponent, with_finer_mains
from treepurify.decomposition import Decomposition
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.moments import weights_in_cells
from treepurify.progress import progress_report
from treepurify.purification.cascade import downward_closure, purify_effects
from treepurify.ranking import rank
from treepurify.rows.reduction import RowStream
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd

_TABLES = 7
_NOTE = "Its effects were purified again on the bins of its main effects for this comparison."
_TOO_LARGE = (
    "Its effects were compared on the bins of each term, since tables on the finer bins of the "
    "main effects would not fit into memory."
)


def has_finer_mains(d: Decomposition) -> bool:
    """Return whether main effects have finer bins than the interactions of their features."""
    return next(with_finer_mains(d.components), None) is not None


def on_finest_bins(d: Decomposition) -> Decomposition:
    """Return the decomposition with all effects on the bins of main effects, and pure there.

    As it is where there are no rows in memory, or a remainder, or the tables would not fit.
    """
    rows = d.rows
    if not rows or isinstance(rows, RowStream) or d.remainder is not None or d.certificate is None:
        return d
    tables = d.tensor_components()
    subsets = downward_closure(tables)
    along = _main_axes(tables)
    axes = {subset: tuple(along[j] for j in subset) for subset in subsets}
    cells = sum(prod(axis.n_cells for axis in of_table) for of_table in axes.values())
    if 8 * _TABLES * d.n_outputs * cells > DEFAULT_BUDGET:
        return replace(d, certificate=d.certificate.noted(_TOO_LARGE))
    fine = rows[1]
    mass = {
        subset: weights_in_cells(axes[subset], [fine.codes[j] for j in subset], fine.shares)
        for subset in subsets
    }
    raw = {s: EffectTensor(s, table.axes, table.values) for s, table in tables.items()}
    purified = purify_effects(EffectTensors(d.intercept, raw), mass, axes, progress=lambda *_: None)
    components = {
        subset: TensorComponent(subset, axes[subset], values, mass[subset], d.inputs, None)
        for subset, values in purified.effects.items()
    }
    return replace(
        d,
        intercept=purified.intercept,
        components=components,
        rows=dict.fromkeys(rows, rows[1]),
        stored_covariances=None,
        stored_collinear=None,
        certificate=replace(d.certificate.noted(_NOTE), cosine=None),
    )


def _main_axes(tables: Mapping[Subset, TensorComponent]) -> dict[int, FeatureAxis]:
    """Return the axis of each feature: that of its main effect, or of an interaction."""
    along: dict[int, FeatureAxis] = {}
    for subset in sorted(tables, key=len, reverse=True):
        along |= dict(zip(subset, tables[subset].axes, strict=True))
    return along


# Effects smaller than this part of the prediction's deviation have no sign worth the name.
SIGN_THRESHOLD = 0.02
_MOST_PLACES = 200


def compare(
    a: Decomposition,
    b: Decomposition,
    X: Any = None,
    *,
    sample_weight: npt.ArrayLike | str | None = None,
    names: Sequence[str] | None = None,
    progress: bool = True,
) -> Comparison:
    """Compare two decompositions of models of the same features.

    Parameters
    ----------
    a, b : Decomposition
        Decompositions under two distributions, by two engines or of two models; or a
        decomposition before (`Decomposition.as_trained`) and after purification.
    X : array_like, table of shape (n_rows, n_features), or rows in batches, optional
        Rows that represent the distribution used for the comparison. Required if the two
        decompositions have different intervals. By default the rows of `a`, or those of `b` if `a`
        has none; if neither has rows, the tables of `a`. Rows in batches (see `purify`) are read
        twice.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row, finite and not negative. For rows in batches, the name of the column
        of weights.
    names : sequence of two str, optional
        Names of the two decompositions; by default "as trained" and "purified" for the
        same model before and after purification, else those of their distributions, engines or
        models.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    Comparison
        The verdict in sentences if printed, and tables: `terms` (the distance, correlation and
        signs of each effect), `places` (where main effects have opposite signs), `orders` and
        `shapley_ise`. Distances are on the margin scale; shares have no unit.

    Raises
    ------
    InvalidInputError
        If features or outputs differ, or `X` is required but not passed.

    See Also
    --------
    Decomposition.as_trained : The effects before purification.
    drift : Change between two data sets.
    treepurify.plots.comparison : Figure of a comparison.
    treepurify.report.write_comparison : A report of several decompositions.

    Notes
    -----
    Every effect is first shifted to mean zero under the common distribution, since constants belong
    to the intercept. Only the Shapley values include the remainders.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> model = GradientBoostingRegressor(max_depth=2).fit(X, X[:, 0] * X[:, 1])
    >>> c = tp.compare(tp.purify(model, X), tp.purify(model, X, weights="uniform"))
    >>> list(c.terms["term"].sort_values())
    ['x0', 'x0 & x1', 'x1']
    """
    for name, d in (("a", a), ("b", b)):
        check_result(name, d, Decomposition)
    # With bins of their own, interactions of an EBM are pure in another sense.
    if has_finer_mains(a) != has_finer_mains(b):
        a, b = (on_finest_bins(d) if has_finer_mains(d) else d for d in (a, b))
    called, report = _names(a, b, names), progress_report(progress)
    smallest = SIGN_THRESHOLD * np.sqrt(model_variance(a))
    if X is None:
        if sample_weight is not None:
            raise InvalidInputError("sample_weight is given without rows: pass X")
        sides = side_by_side(a, b, called)
        sums, mass = side_sums(sides, smallest), sides.mass
    else:
        sums, mass = row_sums(a, b, X, sample_weight, smallest, report)
    terms = [row for pair in sums.pairs for row in _term_rows(a, pair)]
    places = [row for pair in sums.pairs for row in _sign_places(a, pair, smallest)]
    frame, subsets = _ranked(terms, a, b)
    sizes = _beyond_rounding(frame, a, b)[["deviation_first", "deviation_second"]]
    frame = _with_spreads(frame, subsets, a, b)
    return Comparison(
        a,
        b,
        called,
        mass,
        frame,
        _places_frame(places),
        _orders_frame(a, b),
        _ise_frame(a, sums.shapley),
        float(sizes.corr(method="spearman").to_numpy()[0, 1]),
        subsets,
    )


def _names(a: Decomposition, b: Decomposition, names: Sequence[str] | None) -> tuple[str, str]:
    if names is not None:
        first, second = read_names("names", names, 2)
        return first, second
    if a.measure != b.measure and own_distribution(a) == own_distribution(b):
        before, after = BEFORE_AND_AFTER
        return (after, before) if own_distribution(a) == a.measure else (before, after)
    for first, second in (
        (a.measure, b.measure),
        (a.engine, b.engine),
        (_model_words(a), _model_words(b)),
    ):
        if first != second:
            return first, second
    return "the first", "the second"


def _model_words(d: Decomposition) -> str:
    model = d.origin.model
    return "" if model is None else f"{model.library} {model.kind}".strip()


def _term_rows(a: Decomposition, pair: ComponentSums) -> list[dict[str, Any]]:
    distance, first, second = np.sqrt(pair.squares[:3])
    product, opposing = pair.squares[3:]
    rows = []
    for k, output in enumerate(a.output_names):
        larger = max(first[k], second[k])
        both = first[k] * second[k]
        rows.append(
            {
                "subset": pair.subset,
                "term": a.term_name(pair.subset),
                "order": len(pair.subset),
                "output": output,
                "distance": distance[k],
                "relative_distance": distance[k] / larger if larger > 0 else 0.0,
                "correlation": product[k] / both if both > 0 else np.nan,
                "sign_changes": opposing[k],
                "deviation_first": first[k],
                "deviation_second": second[k],
            }
        )
    return rows


def _sign_places(a: Decomposition, pair: ComponentSums, smallest: Array) -> list[dict[str, Any]]:
    axis = pair.axis
    if axis is None:
        return []
    mass = pair.in_cells[:, 0]
    means = pair.in_cells[:, 1:] / np.where(mass > 0, mass, 1.0)[:, None]
    rows = []
    for k, output in enumerate(a.output_names):
        first, second = means[:, k], means[:, a.n_outputs + k]
        chosen = opposed(first, second, smallest[k]).astype(bool) & (mass > 0)
        for run in runs_of_cells(axis, chosen, first):
            part = mass[run].sum()
            rows.append(
                {
                    "term": a.term_name(pair.subset),
                    "output": output,
                    "where": cells_in_words(axis, run),
                    "mass": part,
                    "first": float(mass[run] @ first[run] / part),
                    "second": float(mass[run] @ second[run] / part),
                }
            )
    return rows


def _ranked(
    terms: list[dict[str, Any]], a: Decomposition, b: Decomposition
) -> tuple["pd.DataFrame", tuple[Subset, ...]]:
    """Return the rows, the largest distance first, and the features of each."""
    import pandas as pd

    columns = ["subset", "term", "order", "output", "distance", "relative_distance", "correlation"]
    columns += ["sign_changes", "deviation_first", "deviation_second"]
    frame = pd.DataFrame(terms, columns=columns)
    sizes = _beyond_rounding(frame, a, b)
    for which in ("first", "second"):
        of_outputs = sizes[f"deviation_{which}"].groupby(frame["output"])
        frame[f"rank_{which}"] = of_outputs.rank(ascending=False, method="min").astype(int)
    order = sizes["distance"].sort_values(ascending=False, kind="stable").index
    frame = frame.loc[order].reset_index(drop=True)
    subsets = tuple(frame.pop("subset"))
    return frame, subsets


def _beyond_rounding(frame: "pd.DataFrame", a: Decomposition, b: Decomposition) -> "pd.DataFrame":
    """Return sizes and distances without digits that rounding decides, which have no rank."""
    numbers = frame[["distance", "deviation_first", "deviation_second"]]
    unit = rounding_errors(frame, a, b).replace(0.0, 1.0)
    return numbers.div(unit, axis=0).round().mul(unit, axis=0)


def _with_spreads(
    frame: "pd.DataFrame", subsets: tuple[Subset, ...], a: Decomposition, b: Decomposition
) -> "pd.DataFrame":
    """Return the rows with how much trainings differ, where either side has several."""
    if a.spread is None and b.spread is None:
        return frame
    outputs = [a.output_names.index(output) for output in frame["output"]]
    squares = {}
    for which, d in (("first", a), ("second", b)):
        squares[which] = np.full(len(frame), np.nan)
        for i, (subset, k) in enumerate(zip(subsets, outputs, strict=True)):
            key = tuple(a.feature_names[j] for j in subset)
            if d.spread is not None and key in d.spread:
                squares[which][i] = d.spread.training_variance(key)[k]
    both = np.nansum([*squares.values()], axis=0)
    unknown = np.isnan(squares["first"]) & np.isnan(squares["second"])
    apart = np.divide(
        frame["distance"].to_numpy(), np.sqrt(both), out=np.full(len(frame), np.inf), where=both > 0
    )
    apart[(frame["distance"].to_numpy() == 0) & (both == 0)] = 0.0
    apart[unknown] = np.nan
    return frame.assign(
        spread_first=np.sqrt(squares["first"]),
        spread_second=np.sqrt(squares["second"]),
        distance_in_spreads=apart,
    )


def _places_frame(places: list[dict[str, Any]]) -> "pd.DataFrame":
    import pandas as pd

    columns = ["term", "output", "where", "mass", "first", "second"]
    frame = pd.DataFrame(places, columns=columns)
    frame = frame.sort_values("mass", ascending=False, kind="stable")
    return frame.head(_MOST_PLACES).reset_index(drop=True)


def _orders_frame(a: Decomposition, b: Decomposition) -> "pd.DataFrame":
    """Return the shares of main effects, pairs and more, as each side by itself has them."""
    import pandas as pd

    sides = {}
    for which, d in (("first", a), ("second", b)):
        variances = {subset: part.variance for subset, part in d.components.items()}
        if d.remainder is not None:
            variances[()] = d.remainder.variance
        sides[f"share_{which}"] = rank(variances, d.covariances, tuple).shares
    orders = sorted({len(subset) for subset in (*a.components, *b.components)})
    columns = {
        name: [sum(share for s, share in shares.items() if len(s) == order) for order in orders]
        for name, shares in sides.items()
    }
    return pd.DataFrame({"order": orders, **columns})


def _ise_frame(a: Decomposition, shapley: Mapping[int, Array]) -> "pd.DataFrame":
    import pandas as pd

    rows = [
        {"feature": a.feature_names[j], "output": output, "ise": float(squares[k])}
        for j, squares in sorted(shapley.items())
        for k, output in enumerate(a.output_names)
    ]
    frame = pd.DataFrame(rows, columns=["feature", "output", "ise"])
    return frame.sort_values("ise", ascending=False, kind="stable").reset_index(drop=True)
