"""The certificate of a decomposition: how exact, how pure and how unique it is."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from treepurify.html_summary import html_summary
from treepurify.terms import first_names

STOPPED = "A solver stopped before it reached its tolerance."
"""A sentence of the note."""

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
        errors and are left out. If main effects have finer bins than interactions, as in an EBM,
        it is taken on the finer bins if there are rows.
    solver_error : float
        Largest error of any effect, and of the intercept, in cells with mass. It comes from
        rounding and from iterations that stopped early, as the last step of each solve shows it,
        and includes errors that smaller effects inherit from larger ones. If effects were fitted,
        at least the estimated error, by norm, of the tables of the fit.
    unidentified : int
        Number of independent ways to shift effects without changing predictions on the data, given
        the tables of the model: shifts between an interaction and effects of fewer features,
        summed over the tables in which they were counted, and between main effects of two features
        that determine each other and have no table together. Functions that three or more features
        share, and other tables with the same sum on the rows, are not counted.
    unidentified_terms : tuple of str
        The tables, and pairs of features, between which effects can be shifted in this way.
    fit_unidentified : int
        Number of parameters of a fit that the rows do not determine, summed over its parts; the
        solution of least norm was taken.
    fitted_share : tuple of float
        If effects were fitted, as by the projection of deep trees: the share of the
        variance that they explain, one per output. Empty if nothing was fitted.
    missed : float or None
        The share of the variance that effects of up to this number of features may explain beyond
        what they do, estimated on rows that were left out of a fit. Zero if there is nothing more
        for them to explain, None if this is not known.
    edits : tuple of str
        Changes made after the decomposition, and how much each changed the predictions, one
        sentence per edit. After an edit, nothing was compared with the model again.
    sampling_error : tuple of float or None
        Sampling error of the effects: the root of the summed mean squared errors of all effects,
        relative to the standard deviation of the model, one per output. Empty unless
        `with_sampling_error` computed it; None if the distribution does not consist of rows.
    note : str
        What else a reader must know, such as why a number is missing.

    See Also
    --------
    treepurify.Decomposition.verify : Compare with the model on all rows.
    treepurify.with_sampling_error : Add the sampling error.
    """

    scale: float = 0.0
    additivity: float | None = None
    margin_error: float | None = None
    library_rounding: float | None = None
    conditional_mean: float | None = None
    cosine: float | None = None
    solver_error: float = 0.0
    unidentified: int = 0
    unidentified_terms: tuple[str, ...] = ()
    fit_unidentified: int = 0
    fitted_share: tuple[float, ...] = ()
    missed: float | None = None
    edits: tuple[str, ...] = ()
    sampling_error: tuple[float, ...] | None = None
    note: str = ""

    def noted(self, *sentences: str) -> "Certificate":
        """Return the certificate with further sentences in its note."""
        return replace(self, note=" ".join(filter(None, (self.note, *sentences))))

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
        (``1e-6`` if it was fitted).
        """
        # One by one: with NaN among them, the largest number depends on the order.
        errors = (self.additivity or 0.0, self.conditional_mean or 0.0)
        is_pure = all(error <= _LARGEST_DIFFERENCE for error in errors)
        largest = _LARGEST_FIT_ERROR if self.fitted_share else _LARGEST_ERROR
        return bool(is_pure and self.solver_error <= largest)

    def __repr__(self) -> str:
        """Return the certificate in plain words, one line per fact."""
        return "\n".join(self.details())

    def _repr_html_(self) -> str:
        import pandas as pd

        return html_summary([], pd.DataFrame({"certificate": self.details()}))

    def details(self) -> list[str]:
        """Return what holds in a sentence, then all numbers in words, one sentence per fact."""
        errors = [*self._errors_in_words(), *self._fit_in_words()]
        unit = f"Errors are relative to the scale of the model ({self.scale:.4g})."
        lines = [self._in_a_sentence(), self._undetermined_in_words(), unit * bool(errors)]
        lines += [*errors, *self.edits]
        return [line for line in (*lines, self.note, self._sampling_in_words()) if line]

    def _in_a_sentence(self) -> str:
        error = max(self.additivity or 0.0, self.conditional_mean or 0.0, self.solver_error)
        accuracy = "Exact to rounding" if self.is_exact else "Accurate to rounding"
        if not self.is_accurate:
            accuracy = f"Numerical error of up to {error:.0e} of the largest effect"
        if self.edits:
            accuracy = "Edited, so the effects no longer add up to the model"
        rows = "the rows determine all effects" if self.sampling_error is not None else ""
        if self.fit_unidentified:
            rows = "several fits are equally good, as usual for deep trees: the smallest is shown"
        if self.unidentified:
            rows = "the rows do not determine all effects"
        return f"{accuracy}{rows and f'; {rows}'}."

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

    def _errors_in_words(self) -> Iterator[str]:
        if self.additivity is not None:
            whole = "the tables of the fit" if self.fitted_share else "the model"
            yield f"The effects sum to {whole} (largest error {self.additivity:.1e})."
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
            yield f"Predictions of the parsed model {match}{rounding}."
        if self.conditional_mean is not None and self.cosine is not None:
            yield (
                "Smaller effects left inside larger ones: means of at most "
                f"{self.conditional_mean:.1e}, cosines of at most {self.cosine:.1e}."
            )
        if self.solver_error > 0:
            about = f"about {self.solver_error:.1e}"
            yield f"Numerical error of any effect, where there is data: {about}."

    def _fit_in_words(self) -> Iterator[str]:
        if not self.fitted_share:
            return
        low, high = min(self.fitted_share), max(self.fitted_share)
        fit = f"R\u00b2 = {low:.4f}" + (f" to {high:.4f}, by output" if high > low else "")
        if self.edits:
            yield f"The effects were fitted; before the edits below, the fit had {fit}."
        else:
            yield f"The effects were fitted ({fit}); the remainder contains the rest."
        if self.missed:
            yield (
                "Effects of so few features may explain more of the variance of the predictions: "
                f"up to {self.missed:.2%}, estimated on rows left out of a further fit."
            )
        if self.fit_unidentified:
            yield (
                f"The rows do not determine {self.fit_unidentified} parameters of the fit; the "
                "smallest solution was used."
            )

    def _sampling_in_words(self) -> str:
        if not self.sampling_error:
            is_open = self.sampling_error is not None and not self.fitted_share and not self.edits
            advice = "tp.with_sampling_error(d, model, X) estimates it."
            return f"Sampling error is not included; {advice}" * is_open
        low, high = min(self.sampling_error), max(self.sampling_error)
        error = f"{high:.2g}" if low == high else f"{low:.2g} to {high:.2g}, by output,"
        return (
            "Sampling error, estimated from halves of the rows: effects differ from the effects in "
            f"the population by {error} standard deviations of the prediction (root of the summed "
            "mean squares of all differences)."
        )
