"""How far effects are off because the rows are a sample, from halves of the rows."""

from ast import literal_eval
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_result, check_whole
from treepurify.budget import DEFAULT_BUDGET, check_memory_budget
from treepurify.components import evaluate_each
from treepurify.decomposition import Decomposition
from treepurify.engines.common.functions import rows_for_model
from treepurify.engines.tree.purify import purify
from treepurify.errors import InvalidInputError
from treepurify.models.parse import read_transformed
from treepurify.origin import Call
from treepurify.progress import progress_report
from treepurify.rows.row_weights import read_row_weights, row_shares
from treepurify.rows.tables import take_rows
from treepurify.weights import Weighting

_HALVES = 2
_LEAST_ROWS = 4


def with_sampling_error(
    d: Decomposition,
    model: Any,
    X: Any,
    *,
    weights: str | Weighting | None = None,
    sample_weight: npt.ArrayLike | str | None = None,
    splits: int = 4,
    seed: int = 0,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> Decomposition:
    r"""Add the sampling error of the effects to the certificate.

    The rows that represent the distribution are a sample; another sample would give other effects
    of the same model. To estimate the difference, the rows are split in halves, and the model is
    purified again under each half. If errors are proportional to ``1 / sqrt(n_rows)``, a quarter
    of the mean squared difference between two halves estimates the squared error under all rows.
    On populations that can be sampled repeatedly, the estimate is 0.6 to 1.4 times the error of
    fresh samples for effects of two features, and as low as 0.6 times for sparsely filled tables
    of three features.

    A split takes at least as long as the purification itself, so `purify` does not do this.

    Parameters
    ----------
    d : Decomposition
        What `purify` returned.
    model : object, str or Path
        What `purify` was given. It is purified again under each half, by the method of `d` with its
        default options.
    X : array_like, table of shape (n_rows, n_features), or rows in batches
        The rows that `purify` was given. Of rows in batches, at most 100 000 are drawn.
    weights : str or Weighting, optional
        The distribution of the features, as it was given to `purify`; needed only if it was more
        than a name.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row, finite and not negative, as it was given to `purify` with `X`.
    splits : int
        Number of times the rows are split; the error is averaged over the splits.
    seed : int
        Seed of the splits.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    Decomposition
        The same effects, with ``certificate.sampling_error``: the square root of the sum of the
        mean squared errors of all effects, relative to the standard deviation of the model, one per
        output. ``diagnostics["sampling"]`` has the root mean squared error of each effect on the
        margin scale, over the rows of `X`.

    Raises
    ------
    InvalidInputError
        If `d` was edited, or is not what `purify` returned.
    MemoryBudgetError
        If the tables would not fit.

    See Also
    --------
    audit : Effects that change when the rows are resampled.
    refit : Several trainings of one model.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> model = GradientBoostingRegressor(max_depth=2, random_state=0).fit(X, X[:, 0] * X[:, 1])
    >>> d = tp.with_sampling_error(tp.purify(model, X), model, X)
    >>> print(d.certificate.details()[-1])
    Sampling error, estimated from halves of the rows: effects differ from the effects ...
    """
    check_result("d", d, Decomposition, "treepurify.purify")
    check_whole("splits", splits, 1)
    check_whole("seed", seed, 0)
    check_memory_budget(memory_budget)
    report = progress_report(progress)
    certificate = d.certificate
    if certificate is None or d.call is None or d.call.function != "tp.purify":
        raise InvalidInputError(
            "d must be what tp.purify returned for this model; other decompositions cannot be "
            "computed again under halves of the rows"
        )
    if certificate.edits:
        raise InvalidInputError(
            "the effects of this decomposition were edited, so halves of the rows do not show "
            "their whole error; take it of the decomposition before the edits"
        )
    options = {**_options_of(d, d.call, weights), "memory_budget": memory_budget}
    if options.pop("columns", "auto") == "transformed":
        model, X = read_transformed(model, X)
    names = options.get("feature_names")
    drawn = rows_for_model(model, X, names, sample_weight, memory_budget, report, seed=seed)
    columns = d.inputs.columns(drawn.table)
    row_weights = read_row_weights(drawn.weights, columns.n_rows)
    shares = row_shares(columns.n_rows, row_weights)
    counted = np.flatnonzero(shares > 0)
    if len(counted) < _LEAST_ROWS:
        raise InvalidInputError(
            f"this compares halves of the rows and needs {_LEAST_ROWS} rows of positive weight; "
            f"there are {len(counted)}"
        )
    # Of a sample: errors under all rows are smaller.
    scale = min(1.0, columns.n_rows / (d.origin.n_rows or 1)) / (_HALVES**2 * splits)
    squares = {subset: np.zeros(d.n_outputs) for subset in d.components}
    rng = np.random.default_rng(seed)
    for split in range(splits):
        report("purifying halves of the rows", split, splits)
        halves = []
        for half in np.array_split(rng.permutation(counted), _HALVES):
            own = None if row_weights is None else row_weights[half]
            purified = purify(model, take_rows(drawn.table, half), sample_weight=own, **options)
            parts = [purified.components[subset] for subset in squares]
            halves.append(evaluate_each(parts, columns))
        for subset, one, other in zip(squares, *halves, strict=True):
            squares[subset] += scale * (shares @ (one - other) ** 2)
    predicted = d.on_rows(columns)
    deviation = np.sqrt(shares @ (predicted - shares @ predicted) ** 2)
    total = np.sqrt(np.sum(list(squares.values()), axis=0)) if squares else np.zeros(d.n_outputs)
    error = np.divide(total, deviation, out=np.zeros(d.n_outputs), where=deviation > 0)
    terms = [
        {"term": d.term_name(subset), "error": np.sqrt(square).tolist()}
        for subset, square in squares.items()
    ]
    n_rows = d.origin.measure_rows or d.origin.n_rows
    facts = {"splits": splits, "seed": seed, "rows": n_rows, "terms": terms}
    certificate = replace(certificate, sampling_error=tuple(error.tolist()))
    if drawn.words:
        certificate = certificate.noted(
            f"The sampling error is estimated from halves of {drawn.words}."
        )
    seeds = tuple(sorted({*d.origin.seeds, seed}))
    return replace(
        d,
        certificate=certificate,
        origin=replace(d.origin, seeds=seeds),
        diagnostics={**d.diagnostics, "sampling": facts},
    )


def _options_of(d: Decomposition, call: Call, weights: str | Weighting | None) -> dict[str, Any]:
    """Return what `purify` was given apart from the model and its rows, as the call of `d` says."""
    code = {**call.named}
    for name in ("sample_weight", "refits", "memory_budget", "progress"):
        code.pop(name, None)
    # A half could lead to another method and to other pairs, and lack a missing value.
    options: dict[str, Any] = {
        "method": {"joint": "exact"}.get(d.origin.method, d.origin.method) or "auto",
        "missing_cells": "always",
        "progress": False,
    }
    if code.pop("interactions", None):
        options["interactions"] = [subset for subset in d.components if len(subset) > 1]
    if weights is not None:
        options["weights"] = weights
    for name in code.keys() - options.keys():
        try:
            options[name] = literal_eval(code[name])
        except ValueError:
            options[name] = ...
        if options[name] is ...:
            raise InvalidInputError(
                f"purify was given {name}={code[name]}, which d does not store: "
                + ("pass weights, too" if name == "weights" else f"purify without {name} first")
            )
    return options
