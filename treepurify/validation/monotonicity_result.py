"""What was found of the monotonicity of a model, as a table and in sentences."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from treepurify.arguments import check_result, read_output
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError, UnknownComponentError
from treepurify.html_summary import html_summary
from treepurify.terms import read_features

if TYPE_CHECKING:
    import pandas as pd

Verdict = Literal["proved", "violated", "violated outside the rows", "not decided"]
Method = Literal["trees", "tables", "rows"]

_HOW: dict[Method, str] = {
    "trees": "the sum of the smallest steps of all trees",
    "tables": "the sum of the smallest values of all tables",
    "rows": "every row, with this feature moved over all its intervals",
}


@dataclass(frozen=True, eq=False, repr=False)
class WrongStep:
    """A step of one feature at which the margin changes in the wrong direction.

    Parameters
    ----------
    size : float
        Size of the change in the wrong direction, on the margin scale.
    lower, upper : str
        The neighbouring intervals or categories, in words.
    row, neighbour : dict of str to object
        Two rows on both sides of the step that differ only in this feature. Missing values are NaN,
        unseen categories ``"unseen"``.
    number : int, optional
        Position in `X`, from zero, of the row that has these values of the other features. None if
        no row has them, or if rows came in batches.

    See Also
    --------
    treepurify.check_monotonicity : Proof or counter-example of monotonicity.
    """

    size: float
    lower: str
    upper: str
    row: dict[str, Any]
    neighbour: dict[str, Any]
    number: int | None = None

    def __repr__(self) -> str:
        """Return the step and its size."""
        return f"from {self.lower} to {self.upper}: {self.size:.4g} in the wrong direction"

    def to_frame(self) -> "pd.DataFrame":
        """Return the two rows as a table that can be passed to a model."""
        import pandas as pd

        return pd.DataFrame([self.row, self.neighbour], index=["row", "neighbour"])


@dataclass(frozen=True, eq=False, repr=False)
class MonotonicityCheck:
    """Whether the margin of one output is monotone in one feature.

    Parameters
    ----------
    feature, output : str
        Names.
    direction : str
        ``"increasing"``, ``"decreasing"``, or the categories from the smallest margin to the
        largest.
    verdict : {"proved", "violated", "violated outside the rows", "not decided"}
        ``"proved"``: monotone for every combination of values. ``"violated"``: for at least one row
        (or, without rows, one combination of values), the margin changes in the wrong direction
        when only this feature changes. ``"violated outside the rows"``: this happens for some
        combination of values, but for no row. ``"not decided"``: no row has a wrong step, and
        combinations that no row has were not searched.
    method : {"trees", "tables", "rows"}
        The method that led to the verdict, or was tried last.
    bound : float
        Upper bound for the size of wrong steps over all combinations of values, up to rounding; on
        the margin scale.
    is_reached : bool
        Whether some combination of values has a wrong step of that size.
    rounding : float
        Possible rounding error of a sum of leaves; steps up to this size do not count.
    worst : WrongStep, optional
        The largest wrong step that was found; among the rows, if any row has one.
    row_share, mass_share : float
        Share of the rows, and of their weight, for which some step of the feature is wrong. NaN
        without rows.
    near_share : float
        Share of the weight of the rows that are directly next to a wrong step, so that a change to
        the neighbouring interval or category is in the wrong direction. NaN without rows.

    See Also
    --------
    treepurify.check_monotonicity : Proof or counter-example of monotonicity.
    """

    feature: str
    output: str
    direction: str
    verdict: Verdict
    method: Method
    bound: float
    is_reached: bool
    rounding: float
    worst: WrongStep | None
    row_share: float
    mass_share: float
    near_share: float

    def by_effect(self, d: Decomposition) -> "pd.Series[float]":
        """Return the contribution of each effect to the worst step; they sum to the whole step.

        Parameters
        ----------
        d : Decomposition
            The same model, decomposed.

        Returns
        -------
        Series of float64
            Contributions on the margin scale, indexed by the name of the effect, those most against
            the direction first. Effects without the feature do not change and are left out.

        Raises
        ------
        InvalidInputError
            If no wrong step was found, or the decomposition has no cell for one of its values.
        """
        check_result("d", d, Decomposition)
        if self.worst is None:
            raise InvalidInputError(
                f"there is no wrong step of {self.feature!r} to explain: the verdict is "
                f"{self.verdict!r}"
            )
        table: Any = d.contributions(self.worst.to_frame())
        if d.n_outputs > 1:
            table = table.xs(self.output, axis=1, level="output")
        change: pd.Series[float] = table.iloc[1] - table.iloc[0]
        sign = -1.0 if self.direction == "decreasing" else 1.0
        return change[change != 0.0].sort_values(key=lambda own: sign * own, kind="stable")

    def __repr__(self) -> str:
        """Return the sentence."""
        return self.sentence()

    def sentence(self) -> str:
        """Return the finding as a sentence."""
        order = f"in the order {self.direction}" if "<=" in self.direction else self.direction
        if self.verdict == "proved":
            return (
                f"{self.feature}: proved {order} for every combination of values (by "
                f"{_HOW[self.method]})."
            )
        limit = f"Any violation is at most {self.bound:.3g}."
        if self.worst is None:
            seen = "no row violates it" if self.row_share == self.row_share else "there are no rows"
            return (
                f"{self.feature}: not decided whether {order}: {seen}, and its effect depends on "
                f"several other features at once, whose combinations are not searched. {limit}"
            )
        move = "falls" if self.direction != "decreasing" else "rises"
        step = (
            f"from {self.worst.lower} to {self.worst.upper} the margin {move} by "
            f"{self.worst.size:.3g}"
        )
        if self.verdict == "violated outside the rows":
            return (
                f"{self.feature} is not {order}, but only for combinations that do not occur in "
                f"the rows: {step}. {'' if self.is_reached else limit}".rstrip()
            )
        who = ""
        if self.row_share == self.row_share:
            number = "" if self.worst.number is None else f" (row {self.worst.number})"
            who = (
                f"{number}. {_percent(self.row_share)} of the rows have such a step at some value "
                f"of the feature, {_percent(self.near_share)} right next to their own value"
            )
        return f"{self.feature} is not {order}: {step}{who}."


@dataclass(frozen=True, eq=False, repr=False)
class Monotonicity:
    """Whether a model is monotone in some features, with one check per feature and output.

    Parameters
    ----------
    checks : tuple of MonotonicityCheck
        The checks, ordered by feature, then by output.
    feature_names, output_names : tuple of str
        Names of all features and outputs of the model.
    n_rows : int
        Number of rows that were examined.
    notes : tuple of str
        The cases that the verdicts cover, in sentences.

    See Also
    --------
    treepurify.check_monotonicity : Proof or counter-example of monotonicity.
    treepurify.plots.monotonicity : Figure of the worst violation.
    """

    checks: tuple[MonotonicityCheck, ...]
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    n_rows: int
    notes: tuple[str, ...]

    @property
    def is_proved(self) -> bool:
        """Whether every check is proved."""
        return all(check.verdict == "proved" for check in self.checks)

    def check(self, feature: str | int, output: str | int = 0) -> MonotonicityCheck:
        """Return the check of one feature and output, by name or position.

        Raises
        ------
        UnknownComponentError
            If the feature was not checked.
        InvalidInputError
            If there is no such output.
        """
        (j,) = read_features(feature, self.feature_names)
        name = self.output_names[read_output(output, self.output_names)]
        for one in self.checks:
            if (one.feature, one.output) == (self.feature_names[j], name):
                return one
        checked = ", ".join(dict.fromkeys(repr(one.feature) for one in self.checks))
        raise UnknownComponentError(
            f"{self.feature_names[j]!r} was not checked; these were: {checked}"
        )

    def summary(self) -> list[str]:
        """Return the findings as sentences, and the cases that they cover."""
        several = len(self.output_names) > 1
        lines = [
            (f"{check.output}: " if several else "") + check.sentence() for check in self.checks
        ]
        return [*lines, *self.notes]

    def __repr__(self) -> str:
        """Return the findings as sentences."""
        return "\n".join(self.summary())

    def _repr_html_(self) -> str:
        return html_summary(self.summary(), self.to_frame())

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per feature and output; sizes of steps are on the margin scale."""
        import pandas as pd

        shared = ("feature", "output", "direction", "verdict", "method", "bound")
        shares = ("row_share", "mass_share", "near_share", "rounding")
        nothing = WrongStep(0.0, "", "", {}, {})
        rows = []
        for check in self.checks:
            worst = check.worst or nothing
            step = {"worst_step": worst.size, "from": worst.lower, "to": worst.upper}
            first = {name: getattr(check, name) for name in shared}
            last = {name: getattr(check, name) for name in shares}
            rows.append({**first, "bound_reached": check.is_reached, **step, **last})
        return pd.DataFrame(rows)


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"
