"""The certificate of a decomposition: how exact, how pure and how unique it is."""

from dataclasses import dataclass
from math import isnan

from treepurify.html_summary import html_summary

__all__ = ["Certificate"]

_MOST_NAMES = 6
_LARGEST_DIFFERENCE = 1e-10
# Conditional means do not see errors along a direction that little mass determines.
_LARGEST_ERROR = 1e-8
# It is summed over all trees of a model, each estimated on the safe side.
_LARGEST_FIT_ERROR = 1e-6


@dataclass(frozen=True, repr=False)
class Certificate:
    """The accuracy of a decomposition, and the effects that the data do not determine.

    Errors are relative to `scale`.

    Parameters
    ----------
    scale : float
        Largest absolute effect before purification, or the intercept if that is larger, on the
        margin scale. If there are no tables before purification, the largest value of the effects
        or of the function; on the rows, where tables have far more cells than there are rows.
    additivity_cells : float or None
        Largest difference, over all cells of all tables, between a table and the sum of its pure
        part and the parts moved to other effects; None for closed-form engines, which move nothing.
    additivity_rows : float or None
        Largest difference between the sum of the effects and the parsed model on the
        checked rows; None without rows.
    margin_error : float or None
        Largest difference on the checked rows between the library's raw prediction and the parsed
        model, summed in the precision of the library; None if this was not checked.
    shared_mains : tuple of str
        Pairs of features that determine each other on the rows, fully or in part, if no table
        of the pair shows it. Their main effects can exchange functions without changing
        predictions on the rows.
    shared_directions : int
        Number of independent ways to exchange such functions, summed over these pairs; included in
        `unidentified`.
    shared_size : float
        Largest standard deviation of a function that two main effects can exchange, relative to
        `scale`.
    library_rounding : float or None
        Rounding error of the library: the largest difference on the checked rows between its raw
        prediction and the parsed model, summed in double precision.
    checked_rows : int
        Number of rows on which `additivity_rows`, `margin_error` and `library_rounding` were
        computed.
    conditional_mean : float or None
        Largest mean of an effect given some of its features, over all values with mass; zero for a
        pure effect (Lengerich et al. 2020, equation 5c). Means are over the distribution, which may
        be that of smoothed rows. None if the effects belong to no
        joint distribution, so that they cannot be orthogonal.
    inner_product : float or None
        Largest absolute inner product of an effect with an effect on a subset of its
        features, relative to ``scale**2``.
    cosine : float or None
        Largest inner product relative to the norms of the two effects. Effects with a norm below
        ``1e-9 * scale`` are rounding errors and are left out.
    unidentified : int
        Number of independent ways to shift effects without changing predictions on the data, given
        the tables of the model: shifts between an interaction and effects of fewer features,
        summed over the tables in which they were counted, and between main effects of two features
        that determine each other. Functions that three or more features share, and other tables
        with the same sum on the rows, are not counted.
    unidentified_terms : tuple of str
        The tables in which effects can be shifted in this way.
    uncounted : int
        Number of tables that are too large for this count.
    empty_slices : int
        Number of values, or combinations of values, without data in some table. Their contribution
        to smaller effects is a convention.
    solver_error : float
        Largest error of any effect, and of the intercept, in cells with mass. It comes from
        rounding and from iterations that stopped early, as the last step of each solve shows it,
        and includes errors that smaller effects inherit from larger ones.
    converged : bool
        Whether every iterative solve met its tolerance.
    note : str
        Why a number is missing, if one is.
    finer_cosine : float or None
        If main effects have finer bins than interactions, as in an EBM: the largest cosine
        of an interaction with a main effect on the finer bins, while `cosine` uses the bins of the
        interaction. NaN if the distribution is not that of rows. None if all bins are the same.
    fitted_share : tuple of float
        If effects were fitted, as by the projection of deep trees: the share of the
        variance that they explain, one per output. Empty if nothing was fitted.
    fit_error : float
        Estimated error, by norm, of the tables of the fit, from the solution of its equations.
    fit_unidentified : int
        Number of parameters of the fit that the rows do not determine, summed over its parts; the
        solution of least norm was taken.
    missed : float or None
        The share of the variance that effects of up to this number of features may explain beyond
        what they do, estimated on rows that were left out of a fit. Zero if there is nothing more
        for them to explain, None if this is not known.
    held_out_share : float or None
        If all effects were fitted at once: the share of the variance of left-out rows that effects
        fitted on the others explain, in five folds.
    edits : tuple of str
        Changes made after the decomposition, and how much each changed the predictions, one
        sentence per edit. After an edit, nothing was compared with the model again.
    measure_rows : int
        Number of rows whose distribution is used, or from which it was made; 0 if there
        are none.
    measure_copies : int
        Number of shifted copies of each of these rows in a smoothed distribution; 1 if the rows
        are used as they are.
    sampling_error : tuple of float
        Sampling error of the effects: the root of the summed mean squared errors of all effects,
        relative to the standard deviation of the model, one per output. Empty unless
        `with_sampling_error` computed it.
    sampling_splits : int
        Number of times the rows were split to compute it.

    See Also
    --------
    treepurify.Decomposition.verify : Compare with the model on all rows.
    treepurify.with_sampling_error : Add the sampling error.
    """

    scale: float
    additivity_cells: float | None
    additivity_rows: float | None
    margin_error: float | None
    checked_rows: int
    conditional_mean: float | None
    inner_product: float | None
    cosine: float | None
    unidentified: int
    uncounted: int
    empty_slices: int
    solver_error: float
    converged: bool
    note: str = ""
    unidentified_terms: tuple[str, ...] = ()
    fitted_share: tuple[float, ...] = ()
    fit_error: float = 0.0
    fit_unidentified: int = 0
    missed: float | None = None
    held_out_share: float | None = None
    edits: tuple[str, ...] = ()
    measure_rows: int = 0
    measure_copies: int = 1
    sampling_error: tuple[float, ...] = ()
    sampling_splits: int = 0
    library_rounding: float | None = None
    shared_mains: tuple[str, ...] = ()
    shared_directions: int = 0
    shared_size: float = 0.0
    finer_cosine: float | None = None

    @property
    def is_exact(self) -> bool:
        """Whether the effects are those of the model itself, exact to rounding.

        Never True if effects were fitted, as by the projection of deep trees, or edited.
        """
        return self.is_accurate and not self.fitted_share and not self.edits

    @property
    def is_accurate(self) -> bool:
        """Whether the result is exact to rounding, for the model or for a fit of it.

        True if sums and conditional means are right to ``1e-10`` and every effect to ``1e-8``
        (``1e-6`` if it was fitted), and if every solve converged.
        """
        errors = [
            self.additivity_cells or 0.0,
            self.conditional_mean or 0.0,
            self.additivity_rows or 0.0,
        ]
        # One by one: with NaN among them, the largest number depends on the order.
        is_pure = all(error <= _LARGEST_DIFFERENCE for error in errors)
        is_solved = self.solver_error <= _LARGEST_ERROR and self.fit_error <= _LARGEST_FIT_ERROR
        return bool(self.converged and is_pure and is_solved)

    def __repr__(self) -> str:
        """Return the certificate in plain words, one line per fact."""
        return "\n".join(self.details())

    def _repr_html_(self) -> str:
        import pandas as pd

        return html_summary([], pd.DataFrame({"certificate": self.details()}))

    def _fit_sentences(self) -> list[str]:
        if not self.fitted_share:
            return []
        low, high = min(self.fitted_share), max(self.fitted_share)
        fit = f"R\u00b2 = {low:.4f}" + (f" to {high:.4f}, by output" if high > low else "")
        lines = [f"The effects were fitted ({fit}); the remainder contains the rest."]
        if self.edits:
            lines = [f"The effects were fitted; before the edits below, the fit had {fit}."]
        if self.fit_error > 0:
            lines.append(f"Numerical error of the fit: about {self.fit_error:.1e}.")
        if self.held_out_share is not None:
            lines.append(
                "Fitted on four fifths of the rows, the effects explain "
                f"{self.held_out_share:.2%} of the variance in the last fifth (mean of five)."
            )
        if self.missed:
            lines.append(
                "Effects of so few features may explain more of the variance of the predictions: "
                f"up to {self.missed:.2%}, estimated on rows left out of a further fit."
            )
        if self.fit_unidentified:
            lines.append(
                f"The rows do not determine {self.fit_unidentified} parameters of the fit; the "
                "smallest solution was used."
            )
        return lines

    def _sampling_sentences(self) -> list[str]:
        if self.sampling_error:
            times = "once" if self.sampling_splits == 1 else f"{self.sampling_splits} times"
            low, high = min(self.sampling_error), max(self.sampling_error)
            error = f"{high:.2g}" if low == high else f"{low:.2g} to {high:.2g}, by output,"
            of_rows = f"the {self.measure_rows} rows" if self.measure_rows else "the rows"
            return [
                f"Sampling error, estimated from halves of {of_rows} (split {times}): effects "
                f"differ from the effects in the population by {error} standard deviations of the "
                "prediction (root of the summed mean squares of all differences)."
            ]
        if self.measure_rows and not self.fitted_share and not self.edits:
            return ["Sampling error is not included; tp.with_sampling_error(d) estimates it."]
        return []

    def _rounding(self) -> str:
        if not self.library_rounding:
            return ""
        return (
            " when summed in the library's precision; the library's rounding error is at most "
            f"{self.library_rounding:.1e}"
        )

    def _undetermined(self) -> list[str]:
        of_tables = self.unidentified - self.shared_directions
        lines = []
        if of_tables:
            lines.append(
                f"The data cannot separate {_functions(of_tables)} of interactions from smaller "
                f"effects{self._where()}: combinations of values fall into disconnected groups, or "
                "a feature is a function of others. The smallest solution was used."
            )
        if self.shared_directions:
            lines.append(
                f"The data leave {_functions(self.shared_directions)} of main effects undetermined "
                f"({_some(self.shared_mains)}): these features determine each other, in whole or "
                "in part, or some of their intervals contain few rows. The effects were left as "
                "the model has them; the ambiguity has a standard deviation of at most "
                f"{self.shared_size:.1e}."
            )
        return lines

    def _where(self) -> str:
        return f", in {_some(self.unidentified_terms)}" if self.unidentified_terms else ""

    def details(self) -> list[str]:
        """Return all numbers in words, one sentence per fact."""
        figures = [*self._error_sentences(), *self._fit_sentences(), *self._model_sentences()]
        lines = self._undetermined()
        if figures:
            lines.append(f"Errors are relative to the scale of the model ({self.scale:.4g}).")
        lines += figures
        if self.uncounted:
            tables = "1 large table" if self.uncounted == 1 else f"{self.uncounted} large tables"
            are = "was" if self.uncounted == 1 else "were"
            lines.append(f"{tables} {are} not checked for effects that the data cannot separate.")
        if self.empty_slices:
            lines.append(
                "Number of values, or combinations of values, without data in some table: "
                f"{self.empty_slices}. How effects are split there is a convention."
            )
        lines += self.edits
        if not self.converged:
            lines.append("A solver stopped before it reached its tolerance.")
        if self.note:
            lines.append(self.note)
        return [*lines, *self._sampling_sentences()]

    def _error_sentences(self) -> list[str]:
        lines = []
        if self.additivity_cells is not None:
            lines.append(
                "The effects sum to the tables before purification (largest error "
                f"{self.additivity_cells:.1e})."
            )
        if self.conditional_mean is not None and self.cosine is not None:
            lines.append(
                "Smaller effects left inside larger ones: means of at most "
                f"{self.conditional_mean:.1e}, cosines of at most {self.cosine:.1e}."
            )
        if self.finer_cosine is not None:
            known = "was not measured, since the distribution does not consist of rows"
            if not isnan(self.finer_cosine):
                known = f"is {self.finer_cosine:.1e}"
            lines.append(
                "These errors refer to the bins of interactions. On the finer bins of main "
                f"effects the largest cosine {known}."
            )
        if self.solver_error > 0:
            lines.append(
                "Numerical error of any effect, where there is data: about "
                f"{self.solver_error:.1e}."
            )
        return lines

    def _model_sentences(self) -> list[str]:
        lines = []
        if self.additivity_rows is not None:
            differs = _differs(self.additivity_rows, "the model")
            lines.append(f"On {self.checked_rows} rows the sum of the effects {differs}.")
        if self.margin_error is not None:
            rows = "the same" if self.additivity_rows is not None else f"{self.checked_rows}"
            match = "match the library's raw predictions exactly"
            if self.margin_error > 0.0:
                match = (
                    f"differ from the library's raw predictions by at most {self.margin_error:.1e}"
                )
            lines.append(
                f"On {rows} rows the predictions of the parsed model {match}{self._rounding()}."
            )
        return lines


def _functions(n: int) -> str:
    return "1 function" if n == 1 else f"{n} functions"


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _differs(error: float, other: str) -> str:
    if error == 0.0:
        return f"equals {other} exactly"
    return f"differs from {other} by at most {error:.1e}"
