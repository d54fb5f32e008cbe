"""From when on an audit reports something: one rule per kind of finding, in numbers and words."""

from treepurify.auditing.findings import FindingKind
from treepurify.comparing.compare import SIGN_THRESHOLD

__all__ = ["LEAST_MASS", "NOTABLE_PART", "NOTABLE_RATIO", "PART", "rule_of"]

# The least share of the mass on which a sign is opposite.
LEAST_MASS = 0.01
# Of the threshold: what a contradiction must move, and what a spurious pair may keep.
PART = 0.1
# An effect depends on the measure, the rows or the training from this part of its deviation.
NOTABLE_PART = 0.3
# How much larger an effect must be without data than with them.
NOTABLE_RATIO = 2.0


def rule_of(kind: FindingKind, threshold: float) -> str:
    """Return from when on something is reported; shares are of the variance of the prediction.

    Parameters
    ----------
    kind : str
        The kind of finding.
    threshold : float
        Share of the variance of the prediction from which something is a finding.
    """
    whole, part, least = (f"{100 * t:.3g} %" for t in (threshold, PART * threshold, LEAST_MASS))
    notable, square = f"{100 * NOTABLE_PART:.0f} %", f"{100 * threshold * NOTABLE_PART**2:.3g} %"
    rules: dict[FindingKind, str] = {
        "hidden effect": f"the difference from the model's own term is {whole} of the variance",
        "contradiction": (
            f"opposite signs on {least} of the mass, both effects beyond "
            f"{100 * SIGN_THRESHOLD:.0f} % of the prediction's standard deviation, and their "
            f"difference there is {part} of the variance"
        ),
        "spurious interaction": (
            f"the model's own term is {whole} of the variance, and at most {part} is left of it"
        ),
        "measure": (
            f"the difference is {whole} of the variance and, as a root mean square, {notable} of "
            "the larger of the two standard deviations"
        ),
        "extrapolation": (
            f"the square of the largest effect without data is {whole} of the variance, and the "
            f"effect is {NOTABLE_RATIO:g} times as large as with data; ranked below all others"
        ),
        "identifiability": (
            "a direction that the data do not determine, of any size; or two features that "
            f"determine each other share {whole} of the variance in a way that no row shows"
        ),
        "instability": (
            f"the change is {notable} of the effect's standard deviation and, squared, {square} "
            "of the variance"
        ),
        "no worth": (
            f"the effect is {whole} of the variance, and the interval of its worth reaches zero"
        ),
        "training": (
            f"the effect, or its variance between trainings, is {whole} of the variance, and "
            f"trainings differ by {notable} of its standard deviation, or leave it without a "
            "clear sign, or without the effect"
        ),
    }
    return rules[kind]
