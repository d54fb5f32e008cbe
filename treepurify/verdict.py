"""What a reader must know before using a decomposition, in one sentence and one colour.

Errors are judged by what they change: against the standard deviation of the model, output by
output. An error of 7e-6 dollars changes nobody's conclusion about a price; `Certificate.is_exact`
is about arithmetic, and says whether sums hold to 1e-10.
"""

from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np

from treepurify.certificate import Certificate
from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset
from treepurify.ranking import Ranking
from treepurify.spread import LEVEL
from treepurify.terms import first_names, in_groups, listed_names
from treepurify.typing import Array

# Below this share of the variance a report without its remainder is another model.
_NEARLY_ALL = 0.95
_MOST_NAMED = 4
# So many combinations of values to each row are more than the rows cover.
_MANY = 10
# Errors of up to this share of the standard deviation change no conclusion.
_HARMLESS = 1e-6
# What rounding leaves of the largest number, where the model is constant or its intercept large.
_ROUNDING = 256 * np.finfo(np.float64).eps

_NAMES = {0: "", 1: "main effects", 2: "pairs", 3: "effects of three and more features"}
_OF_COMBINATIONS = "effects of combinations of columns"
_MOST_NOTES = 2
# What the remainder of effects of one feature, of up to two and of more consists of, and what a
# part of it could still be.
_LARGER = ("interactions", "interactions of three or more features", "larger interactions")
_COULD = ("main effects", "pairs", "smaller effects")

State = Literal["good", "part", "bad"]


@dataclass(frozen=True)
class Verdict:
    """The state of a decomposition, and what must be known of it.

    Parameters
    ----------
    state : {"good", "part", "bad"}
        ``"part"`` where effects are right but not the whole model; ``"bad"`` where an error is
        large enough to change what a reader concludes.
    sentence : str
        Why the state is not good; without a certificate, also how much the effects explain.
    """

    state: State
    sentence: str = ""


def verdict(d: Decomposition) -> Verdict:
    """Return what a reader must know of a decomposition."""
    c = d.certificate
    covers = bool(np.all(_explained_share(d) >= _NEARLY_ALL))
    if c is None:
        return Verdict("good" if covers else "part", _explained(d))
    parts = d.covariances_at_hand or {s: part.variance for s, part in d.components.items()}
    variance = np.sum([np.broadcast_to(part, d.n_outputs) for part in parts.values()], axis=0)
    deviation = np.sqrt(np.maximum(variance, 0.0)) * np.ones(d.n_outputs)
    allowed = float(np.fmax(_HARMLESS * deviation, _ROUNDING * c.scale).min())
    known = [error for error in (c.additivity, c.conditional_mean, c.solver_error) if error]
    # A comparison with NaN is false, and the largest of several with NaN is NaN.
    worst = float(np.max(known, initial=0.0))
    if not worst * c.scale <= allowed:
        return Verdict("bad", _alarm(c, worst))
    if c.edits:
        return Verdict("part", "Effects were edited, so they no longer add up to the model.")
    return Verdict("good") if covers else Verdict("part", _explained(d))


def shares_words(d: Decomposition, ranking: Ranking) -> str:
    """Return the shares of main effects, pairs and more in words; empty if they are not known."""
    combined = d.inputs.combined

    def is_combined(subset: Subset) -> bool:
        # The effect of a feature that combines several columns is no main effect of a column.
        return len(subset) == 1 and subset[0] in combined

    sums: dict[str, float] = {}
    for subset in sorted(ranking.order, key=lambda s: (len(s) or np.inf, is_combined(s))):
        kind = _OF_COMBINATIONS if is_combined(subset) else _NAMES[min(len(subset), 3)]
        sums[kind] = sums.get(kind, 0.0) + ranking.shares[subset]
    shares = np.array([*sums.values()])
    if np.isnan(shares).any() or not shares.any():
        return "" if d.remainder is None else _explained(d)
    rest = sums.pop("", 0.0)
    words = ", ".join(f"{kind} {share:z.0%}" for kind, share in sums.items())
    left = f"; {rest:z.0%} are {_of_remainder(d)}" if round(rest, 2) else ""
    return f"{words[:1].upper()}{words[1:]}{left}."


def _of_remainder(d: Decomposition) -> str:
    """Return what the remainder consists of."""
    if d.call is not None and d.call.named.get("interactions", "None") != "None":
        return "not shown"
    missed = None if d.certificate is None else d.certificate.missed
    if missed is None:
        return "in the remainder"
    order = min(max(map(len, d.components), default=1), len(_LARGER))
    could = f" (up to {missed:.0%} could still be {_COULD[order - 1]})" * (round(missed, 2) > 0)
    return _LARGER[order - 1] + could


def notes(d: Decomposition, ranking: Ranking) -> list[str]:
    """Return what must be known of effects when they are shown, at most two sentences."""
    c, known = d.certificate, d.origin.identifiability
    found = [] if c is None else [*c.edits[-1:]]
    judged = verdict(d)
    found += [judged.sentence * (judged.state == "bad"), spread_words(d)]
    found += [group.sentence for group in ranking.collinear[:1]]
    if known is None or known.is_unique:
        found += [] if c is None else [_undetermined_words(c, d)]
    else:
        which = "the smallest" if known.is_least_norm else "one"
        found.append(f"The rows do not determine all effects: this is {which} of many solutions.")
    return [*filter(None, [*found, measure_words(d), _columns_words(d)])][:_MOST_NOTES]


def spread_words(d: Decomposition) -> str:
    """Return how many trainings there are, and how many effects have no sign; empty for one."""
    if d.spread is None:
        return ""
    spread, how = d.spread, f" ({d.spread.how})" if d.spread.how else ""
    without = len(spread.no_clear_sign())
    whole = sum(np.count_nonzero(np.any(spread.variances(s) > 0, axis=0)) for s in spread.stacked)
    return (
        f"{spread.n_models} trainings{how}: {without} of {whole} effects have no clear sign (their "
        f"{LEVEL:.0%} bands include zero nearly everywhere)."
    )


def _columns_words(d: Decomposition) -> str:
    """Return in a sentence that features are no raw columns of a pipeline; empty where they are."""
    model = d.origin.model
    is_pipeline = model is not None and "Pipeline(" in model.kind
    if not is_pipeline or not any(spec.made_from for spec in d.inputs.features):
        return ""
    return (
        "The pipeline mixes columns, so the features are the columns that its last step takes; "
        "d.inputs.features says what each is made from."
    )


def measure_words(d: Decomposition) -> str:
    """Return in a sentence what smoothed rows are and why; empty for every other measure."""
    n_rows = d.origin.measure_rows
    if d.origin.copies < 2:
        return ""
    n_cells: dict[int, int] = {}
    for component in d.tensor_components().values():
        for j, axis in zip(component.features, component.axes, strict=True):
            n_cells[j] = max(n_cells.get(j, 1), axis.n_cells)
    if prod(n_cells.values()) < _MANY * n_rows:
        return "Smoothed by the amount that best predicts rows left out."
    return f"Smoothed: {in_groups(n_rows)} rows leave most combinations of values empty."


def explained_words(d: Decomposition) -> str:
    """Return the share in words, such as ``"97.82%"``; empty without a remainder."""
    if d.remainder is None:
        return ""
    shares = _explained_share(d)
    if np.any(np.isnan(shares)):
        return "an unknown share"
    words = [f"{share:.2%}" for share in shares]
    if d.n_outputs == 1:
        return words[0]
    if d.n_outputs > _MOST_NAMED:
        return f"{shares.min():.2%} to {shares.max():.2%}, by output,"
    return listed_names([f"{s} ({name})" for s, name in zip(words, d.output_names, strict=True)])


def explained_in_words(d: Decomposition) -> str:
    """Return the share with what it is a share of; empty without a remainder."""
    share, is_known = explained_words(d), () in (d.covariances_at_hand or {})
    return f"{share} of the model's variance{', by covariance' * is_known}" if share else ""


def _explained_share(d: Decomposition) -> Array:
    """Return the share of the model's variance that the components explain.

    Returns
    -------
    ndarray of float64, shape (n_outputs,)
        One minus the share of the remainder by covariance, as in the table of effects, or else the
        share that a fit measured; one where there is no remainder, NaN where nothing gives it.
    """
    if d.remainder is None:
        return np.ones(d.n_outputs)
    known = d.covariances_at_hand
    if known is not None and () in known:
        total = np.sum(list(known.values()), axis=0)
        constant = total <= 0
        return np.where(constant, 1.0, 1.0 - known[()] / np.where(constant, 1.0, total))
    fitted = () if d.certificate is None else d.certificate.fitted_share
    return np.array(fitted) if fitted else np.full(d.n_outputs, np.nan)


def _explained(d: Decomposition) -> str:
    """Return how much the effects explain, and of which output least; empty if they are all."""
    if d.remainder is None:
        return ""
    shares, least = _explained_share(d), ""
    if d.n_outputs > 1 and np.any(shares < _NEARLY_ALL):
        worst = int(np.nanargmin(shares))
        least = f" They explain least of {d.output_names[worst]} ({shares[worst]:.1%})."
    return f"The effects explain {explained_in_words(d)}; the remainder contains the rest.{least}"


def _alarm(c: Certificate, worst: float) -> str:
    """Return which error is so large that it may change what a reader concludes."""
    if np.isnan(worst):
        return "The numerical error of the effects is not a number; see the certificate."
    if worst == c.conditional_mean:
        return (
            f"Interactions contain main effects (up to {worst:.2g} of the largest effect), so "
            "effects are not orthogonal under this distribution."
        )
    return (
        f"Numerical error of the effects: up to {worst:.0e} of the largest effect or "
        "intercept; see the certificate."
    )


def _undetermined_words(c: Certificate, d: Decomposition) -> str:
    """Return which effects the rows leave open, as a sample or at all; empty if none."""
    named = c.unidentified_terms
    but_for = f" Undetermined: {first_names(named, _MOST_NAMED)}." if named else ""
    if c.sampling_error:
        return (
            "The rows are a sample: effects differ from those of the population by about "
            f"{max(c.sampling_error):.2g} standard deviations of the prediction.{but_for}"
        )
    if c.unidentified or None in d.origin.open_directions.values():
        return f"The rows do not determine all effects.{but_for}"
    return ""
