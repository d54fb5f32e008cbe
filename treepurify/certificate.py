"""The certificate of a decomposition: how exact, how pure and how unique it is."""

from dataclasses import dataclass
from math import isnan

from treepurify.html_summary import html_summary
from treepurify.terms import first_names

__all__ = ["Certificate"]

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
    additivity : float or None
        Largest difference between a table and the sum of its pure part and the parts moved to other
        effects, over all cells of all tables, and between the sum of the effects and the parsed
        model on some rows; None if neither was measured.
    margin_error : float or None
        Largest difference on these rows between the library's raw prediction and the parsed
        model, summed in the precision of the library; None if this was not checked.
    library_rounding : float or None
        Rounding error of the library: the same difference, with the parsed model summed in double
        precision.
    conditional_mean : float or None
        Largest mean of an effect given some of its features, over all values with mass; zero for a
        pure effect (Lengerich et al. 2020, equation 5c). Means are over the distribution, which may
        be that of smoothed rows. None if the effects belong to no
        joint distribution, so that they cannot be orthogonal.
    cosine : float or None
        Largest absolute inner product of an effect with an effect on a subset of its features,
        relative to the norms of both. Effects with a norm below ``1e-9 * scale`` are rounding
        errors and are left out.
    finer_cosine : float or None
        If main effects have finer bins than interactions, as in an EBM: the largest cosine
        of an interaction with a main effect on the finer bins, while `cosine` uses the bins of the
        interaction. NaN if the distribution is not that of rows. None if all bins are the same.
    solver_error : float
        Largest error of any effect, and of the intercept, in cells with mass. It comes from
        rounding and from iterations that stopped early, as the last step of each solve shows it,
        and includes errors that smaller effects inherit from larger ones. If effects were fitted,
        at least the estimated error, by norm, of the tables of the fit.
    converged : bool
        Whether every iterative solve met its tolerance.
    unidentified : int
        Number of independent ways to shift effects without changing predictions on the data, given
        the tables of the model: shifts between an interaction and effects of fewer features,
        summed over the tables in which they were counted, and between main effects of two features
        that determine each other and have no table together. Functions that three or more features
        share, and other tables with the same sum on the rows, are not counted.
    unidentified_terms : tuple of str
        The tables, and pairs of features, between which effects can be shifted in this way.
    fitted_share : tuple of float
        If effects were fitted, as by the projection of deep trees: the share of the
        variance that they explain, one per output. Empty if nothing was fitted.
    fit_unidentified : int
        Number of parameters of the fit that the rows do not determine, summed over its parts; the
        solution of least norm was taken.
    missed : float or None
        The share of the variance that effects of up to this number of features may explain beyond
        what they do, estimated on rows that were left out of a fit. Zero if there is nothing more
        for them to explain, None if this is not known.
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
    note : str
        What else a reader must know, such as why a number is missing.

    See Also
    --------
    treepurify.Decomposition.verify : Compare with the model on all rows.
    treepurify.with_sampling_error : Add the sampling error.
    """

    scale: float
    additivity: float | None
    margin_error: float | None
    conditional_mean: float | None
    cosine: float | None
    solver_error: float
    converged: bool
    unidentified: int
    unidentified_terms: tuple[str, ...] = ()
    library_rounding: float | None = None
    finer_cosine: float | None = None
    fitted_share: tuple[float, ...] = ()
    fit_unidentified: int = 0
    missed: float | None = None
    edits: tuple[str, ...] = ()
    measure_rows: int = 0
    measure_copies: int = 1
    sampling_error: tuple[float, ...] = ()
    note: str = ""

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
        # One by one: with NaN among them, the largest number depends on the order.
        errors = (self.additivity or 0.0, self.conditional_mean or 0.0)
        is_pure = all(error <= _LARGEST_DIFFERENCE for error in errors)
        largest = _LARGEST_FIT_ERROR if self.fitted_share else _LARGEST_ERROR
        return bool(self.converged and is_pure and self.solver_error <= largest)

    def __repr__(self) -> str:
        """Return the certificate in plain words, one line per fact."""
        return "\n".join(self.details())

    def _repr_html_(self) -> str:
        import pandas as pd

        return html_summary([], pd.DataFrame({"certificate": self.details()}))

    def details(self) -> list[str]:
        """Return all numbers in words, one sentence per fact."""
        figures = [*self._errors_in_words(), *self._fit_in_words()]
        lines = [self._undetermined_in_words()]
        if figures:
            lines.append(f"Errors are relative to the scale of the model ({self.scale:.4g}).")
        lines += [*figures, *self.edits]
        if not self.converged:
            lines.append("A solver stopped before it reached its tolerance.")
        return [line for line in (*lines, self.note, self._sampling_in_words()) if line]

    def _undetermined_in_words(self) -> str:
        if not self.unidentified:
            return ""
        functions = "1 function" if self.unidentified == 1 else f"{self.unidentified} functions"
        some = first_names(self.unidentified_terms)
        return (
            f"The data cannot separate {functions} of some effects from other effects"
            f"{some and f' ({some})'}: features determine each other, in whole or in part, or "
            "combinations of values fall into disconnected groups. The smallest interactions were "
            "used, and main effects as the model has them."
        )

    def _errors_in_words(self) -> list[str]:
        lines = []
        if self.additivity is not None:
            whole = "the tables of the fit" if self.fitted_share else "the model"
            lines.append(f"The effects sum to {whole} (largest error {self.additivity:.1e}).")
        if self.margin_error is not None:
            match = "match the library's raw predictions exactly"
            if self.margin_error > 0.0:
                match = f"differ from the library's by at most {self.margin_error:.1e}"
            rounding = ""
            if self.library_rounding:
                rounding = (
                    " when summed in the library's precision; the library's rounding error is at "
                    f"most {self.library_rounding:.1e}"
                )
            lines.append(f"Predictions of the parsed model {match}{rounding}.")
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

    def _fit_in_words(self) -> list[str]:
        if not self.fitted_share:
            return []
        low, high = min(self.fitted_share), max(self.fitted_share)
        fit = f"R\u00b2 = {low:.4f}" + (f" to {high:.4f}, by output" if high > low else "")
        lines = [f"The effects were fitted ({fit}); the remainder contains the rest."]
        if self.edits:
            lines = [f"The effects were fitted; before the edits below, the fit had {fit}."]
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

    def _sampling_in_words(self) -> str:
        if self.sampling_error:
            low, high = min(self.sampling_error), max(self.sampling_error)
            error = f"{high:.2g}" if low == high else f"{low:.2g} to {high:.2g}, by output,"
            of_rows = f"the {self.measure_rows} rows" if self.measure_rows else "the rows"
            return (
                f"Sampling error, estimated from halves of {of_rows}: effects "
                f"differ from the effects in the population by {error} standard deviations of the "
                "prediction (root of the summed mean squares of all differences)."
            )
        if self.measure_rows and not self.fitted_share and not self.edits:
            return (
                "Sampling error is not included; tp.with_sampling_error(d, model, X) estimates it."
            )
        return ""
