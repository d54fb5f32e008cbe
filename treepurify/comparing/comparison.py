"""The comparison of two decompositions, and its verdict in sentences."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset
from treepurify.html_summary import html_summary
from treepurify.origin import Identifiability

if TYPE_CHECKING:
    import pandas as pd

# Below this the effects agree to more digits than a figure shows.
_SAME = 1e-6
# Share of the largest effect, and of the intercept, by which equal effects may differ.
_ROUNDING, _ROUNDING_OF_INTERCEPT = 1e-10, 256 * float(np.finfo(np.float64).eps)
_NOTABLE_MASS = 0.01


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Differences of two decompositions, effect by effect, under one distribution.

    Parameters
    ----------
    first, second : Decomposition
        The decompositions that were compared.
    names : tuple of str
        Their names.
    mass : str
        The distribution under which all numbers were computed, in words.
    terms : DataFrame
        One row per effect and output, the largest distance first: ``term``, ``order``, ``output``,
        ``distance`` (root mean square difference of the two centred effects, on the margin scale),
        ``relative_distance`` (the distance divided by the larger of the two standard deviations),
        ``correlation``, ``sign_changes`` (share of the distribution for which the effects have
        opposite signs and both exceed 2% of the standard deviation of the first prediction),
        ``deviation_first``, ``deviation_second`` (standard deviations), ``rank_first``,
        ``rank_second``. If one side has several trainings (`Spread`), also ``spread_first`` and
        ``spread_second``, the root mean square deviation of single trainings from their mean, and
        ``distance_in_spreads``, the distance divided by
        ``sqrt(spread_first**2 + spread_second**2)``: below about one, the difference is no larger
        than between trainings.
    places : DataFrame
        Regions with opposite signs, for main effects only, the largest mass first: ``term``,
        ``output``, ``where``, ``mass``, and the mean effects ``first`` and ``second`` in the
        region.
    orders : DataFrame
        ``order``, ``share_first``, ``share_second``: the share of effects by number of features in
        the variance of each model, by covariance, as `Decomposition.importance` has it; NaN if the
        distribution does not give it.
    shapley_ise : DataFrame
        ``feature``, ``output``, ``ise``: mean squared difference of the Shapley values
        ``sum over S containing j of f_S / |S|`` (Ferrere et al. 2026, equation 21). Parts of a
        remainder are included if their features are known. The remainder of `categorical_anova` is
        split evenly among all features (equation 23); NaN if its values on the rows are unknown.
        Empty if the distribution is not a joint distribution of all features.
    rank_agreement : float
        Spearman correlation between the standard deviations of the effects on both sides. Sizes
        that differ by rounding only are tied, here and in the ranks and the order of `terms`.
    subsets : tuple of tuple of int
        Features of each row of `terms`, as positions in the first decomposition. They are
        unambiguous, whereas the joined names of two features could equal the name of a third.

    See Also
    --------
    treepurify.compare : Compare two decompositions.
    treepurify.plots.comparison : Figure of a comparison.
    """

    first: Decomposition
    second: Decomposition
    names: tuple[str, str]
    mass: str
    terms: "pd.DataFrame"
    places: "pd.DataFrame"
    orders: "pd.DataFrame"
    shapley_ise: "pd.DataFrame"
    rank_agreement: float
    subsets: tuple[Subset, ...]

    def to_frame(self) -> "pd.DataFrame":
        """Return the differences of effects, the largest first, with both sides under their names.

        Returns
        -------
        DataFrame
            One row per effect and output: ``effect``, ``output`` if there are several, ``features``
            (their number), ``difference`` (root mean square, on the margin scale),
            ``relative difference``, ``correlation``, ``sign differs`` (share of the distribution),
            and for each side ``size in NAME`` and ``rank in NAME``; with several trainings also
            ``difference in spreads``. `terms` has the same numbers, with column names that do not
            depend on the comparison.
        """
        first, second = self.names
        names = {
            "term": "effect",
            "output": "output",
            "order": "features",
            "distance": "difference",
            "relative_distance": "relative difference",
            "correlation": "correlation",
            "sign_changes": "sign differs",
            "deviation_first": f"size in {first}",
            "deviation_second": f"size in {second}",
            "rank_first": f"rank in {first}",
            "rank_second": f"rank in {second}",
            "distance_in_spreads": "difference in spreads",
        }
        kept = [name for name in names if name in self.terms]
        if self.first.n_outputs == 1:
            kept.remove("output")
        return self.terms[kept].rename(columns=names)

    def verdict(self) -> list[str]:
        """Return the result of the comparison in sentences that can be quoted."""
        return comparison_sentences(self)

    def __repr__(self) -> str:
        """Return the verdict."""
        return "\n".join(self.verdict())

    def _repr_html_(self) -> str:
        return html_summary(self.verdict(), self.to_frame())


def comparison_sentences(
    comparison: Comparison, number: Callable[[float, str], str] = format
) -> list[str]:
    """Return the result of a comparison in sentences.

    Parameters
    ----------
    comparison : Comparison
        The comparison.
    number : callable
        Writes a number in a format, such as ``"+.3g"``.
    """
    first, second = comparison.names
    lines = [f"Comparing {first} with {second}, averaged over {comparison.mass}."]
    if len(comparison.terms) == 0:
        return [*lines, "Both are constant."]
    lines.append(_largest(comparison))
    lines += _shift(comparison, number)
    if not _is_equal(comparison):
        lines += _signs(comparison, number)
        lines += _ranks(comparison, number)
        lines += _moved(comparison)
    lines += _shapley(comparison)
    if not _is_equal(comparison):
        lines += _spreads(comparison)
    if comparison.first.remainder is not None or comparison.second.remainder is not None:
        lines.append(
            "Remainders are not compared, but Shapley values include those of their effects "
            "that are known individually."
        )
    if not _is_same(comparison):
        lines += _support(comparison)
    return lines


def _largest(comparison: Comparison) -> str:
    row = comparison.terms.iloc[0].to_dict()
    if _is_equal(comparison):
        return (
            f"All effects are equal to rounding: the largest difference is {row['distance']:.2g}."
        )
    if _is_same(comparison):
        return f"All effects are the same to within {row['distance']:.1e}."
    output = f" on {row['output']}" if comparison.first.n_outputs > 1 else ""
    first, second = comparison.names
    return (
        f"The effect that differs most is {row['term']}{output}: by {row['distance']:.3g} (root "
        f"mean square), {relative_words(row, (f'in {first!r}', f'in {second!r}'))}."
    )


def relative_words(row: Mapping[Any, Any], where: tuple[str, str]) -> str:
    """Return `relative_distance` of a row of the terms, and of which deviation it is a share."""
    first, second = row["deviation_first"], row["deviation_second"]
    both = f"{first:.3g} {where[0]}, {second:.3g} {where[1]}"
    return f"{row['relative_distance']:.0%} of its larger standard deviation ({both})"


def _shift(comparison: Comparison, number: Callable[[float, str], str]) -> list[str]:
    """Say by how much the means differ, which centred effects leave out."""
    first, second = comparison.first, comparison.second
    shift = second.intercept - first.intercept
    k = int(np.argmax(np.abs(shift)))
    scale = max(float(np.abs(first.intercept[k])), float(comparison.terms["deviation_first"].max()))
    if abs(shift[k]) <= _SAME * scale:
        return []
    output = f" of {first.output_names[k]}" if first.n_outputs > 1 else ""
    both = _both(comparison, *(number(d.intercept[k], ".4g") for d in (first, second)))
    return [
        f"The intercepts{output} differ by {number(shift[k], '+.3g')}: {both}. Effects are "
        "compared after removing this difference in means."
    ]


def _is_same(comparison: Comparison) -> bool:
    return bool((comparison.terms["distance"] <= _SAME * _largest_effects(comparison.terms)).all())


def _is_equal(comparison: Comparison) -> bool:
    errors = rounding_errors(comparison.terms, comparison.first, comparison.second)
    return bool((comparison.terms["distance"] <= errors).all())


def rounding_errors(terms: "pd.DataFrame", a: Decomposition, b: Decomposition) -> "pd.Series":
    """Return for each row of the terms by how much equal effects of its output may differ."""
    intercepts = np.maximum(np.abs(a.intercept), np.abs(b.intercept))
    of_output = dict(zip(a.output_names, _ROUNDING_OF_INTERCEPT * intercepts, strict=True))
    errors = _ROUNDING * _largest_effects(terms)
    return errors.clip(lower=terms["output"].map(of_output).astype(float))


def _largest_effects(terms: "pd.DataFrame") -> "pd.Series":
    """Return for each row of the terms the largest standard deviation of its output."""
    deviations = terms[["deviation_first", "deviation_second"]].max(axis=1)
    return deviations.groupby(terms["output"]).transform("max")


def _support(comparison: Comparison) -> list[str]:
    """Say why a closed form may differ from another engine with neither being wrong."""
    lines = []
    both = (comparison.first, comparison.second)
    if all(d.origin.identifiability is not None for d in both):
        return []
    for name, d in zip(comparison.names, both, strict=True):
        known = d.origin.identifiability
        if known is None:
            continue
        if not known.is_unique:
            lines.append(
                f"The rows do not determine every effect: {name} {_choice(known)}. The other "
                "decomposition may choose otherwise; the sums of the effects agree."
            )
        if d.remainder is not None:
            lines.append(
                f"The effects of {name} were fitted by least squares, with functions of few "
                "features only. Purified effects come from the full decomposition, so the two "
                "agree only if the remainder is orthogonal to the fitted effects."
            )
    return lines


def _choice(known: Identifiability) -> str:
    if known.is_least_norm:
        return "took the smallest effects that add up to the function on the rows"
    return (
        f"kept {known.rank} independent functions; the share of {known.n_rejected} others, which "
        "are combinations of these on the rows, went to simpler or earlier terms"
    )


def _signs(comparison: Comparison, number: Callable[[float, str], str]) -> list[str]:
    terms = comparison.terms
    mains = terms[terms["order"] == 1]
    changed = mains[mains["sign_changes"] >= _NOTABLE_MASS]
    if len(mains) == 0:
        return []
    if len(changed) == 0:
        return ["No main effect has opposite signs for 1% of the distribution or more."]
    names = list(dict.fromkeys(changed.sort_values("sign_changes", ascending=False)["term"]))
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    total = mains["term"].nunique()
    verb = "has" if len(names) == 1 else "have"
    where = "for 1% of the distribution or more"
    line = f"{len(names)} of {total} main effects {verb} opposite signs {where}: {shown}."
    if len(comparison.places) == 0:
        return [line]
    place = comparison.places.iloc[0]
    means = _both(comparison, *(number(place[which], "+.3g") for which in ("first", "second")))
    return [
        line,
        f"The largest region with opposite signs is {place['where']} ({place['mass']:.1%} of the "
        f"distribution): {means}.",
    ]


def _both(comparison: Comparison, *said: str) -> str:
    """Return what is said of each side, with its name."""
    return ", ".join(
        f"{words} ({name})" for words, name in zip(said, comparison.names, strict=True)
    )


def _ranks(comparison: Comparison, number: Callable[[float, str], str]) -> list[str]:
    terms = comparison.terms
    tops = [
        str(terms["term"].iloc[int(np.argmax(terms[f"deviation_{which}"]))])
        for which in ("first", "second")
    ]
    agreement = comparison.rank_agreement
    words = f"Rank correlation of effect sizes: {number(agreement, '.2f')}. "
    rank = "" if np.isnan(agreement) else words
    if tops[0] == tops[1]:
        return [f"{rank}The largest effect is {tops[0]} in both."]
    return [f"{rank}The largest effect is {_both(comparison, *tops)}."]


def _moved(comparison: Comparison) -> list[str]:
    orders = comparison.orders
    if len(orders) < 2:
        return []
    first, second = orders.loc[orders["order"] == 1, ["share_first", "share_second"]].to_numpy()[0]
    if np.isnan(first) or np.isnan(second):
        return []
    shares = _both(comparison, f"{first:z.0%}", f"{second:z.0%}")
    return [f"Main effects account for {shares} of the variance of the predictions."]


def _spreads(comparison: Comparison) -> list[str]:
    """Say which differences are larger than those between trainings of one side."""
    if "distance_in_spreads" not in comparison.terms:
        return []
    known = comparison.terms.dropna(subset="distance_in_spreads")
    beyond = known[known["distance_in_spreads"] > 1]
    line = (
        f"{len(beyond)} of {len(known)} effects differ by more than the spread of trainings "
        "explains"
    )
    if len(beyond) == 0:
        return [f"{line}."]
    row = beyond.iloc[0]
    ratio = f"{row['distance_in_spreads']:.1f} times this spread"
    return [f"{line}; the largest of these differences ({row['term']}) is {ratio}."]


def _shapley(comparison: Comparison) -> list[str]:
    if len(comparison.shapley_ise) == 0 or comparison.shapley_ise["ise"].isna().any():
        return []
    row = comparison.shapley_ise.iloc[0]
    errors = rounding_errors(comparison.terms, comparison.first, comparison.second)
    if np.sqrt(row["ise"]) <= errors.max():
        return []
    return [
        f"Shapley values differ most for {row['feature']}: by {np.sqrt(row['ise']):.3g} (root "
        "mean square)."
    ]
