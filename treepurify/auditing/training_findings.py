"""What other trainings of a model say of its effects: not so, not there, not with this sign."""

import numpy as np

from treepurify.auditing.findings import Finding, output_words
from treepurify.auditing.rules import NOTABLE_PART
from treepurify.comparing.apparent import model_variance
from treepurify.decomposition import Decomposition
from treepurify.spread import LEVEL, Spread

__all__ = ["training_findings"]


def training_findings(d: Decomposition, spread: Spread, threshold: float) -> list[Finding]:
    """Return the effects on which trainings of the model do not agree.

    One is found if its variance, or that between trainings, is at least `threshold` of the
    variance of the prediction, and trainings differ by 30 % of its deviation or more, or their
    band holds zero in every cell, or some of them do not have it.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    spread : Spread
        Its effects in several trainings.
    threshold : float
        Share of the variance of the prediction from which something is a finding.
    """
    total = model_variance(d)
    without = set(spread.no_clear_sign())
    present = spread.present()
    findings = []
    for subset in spread.stacked:
        if subset not in d.components:
            continue
        between, variance = spread.training_variance(subset), d.components[subset].variance
        for k in range(d.n_outputs):
            concerned = max(float(between[k]), float(variance[k]))
            if total[k] <= 0 or concerned < threshold * total[k]:
                continue
            relative = float(np.sqrt(between[k] / variance[k])) if variance[k] > 0 else np.inf
            share = float(present[subset][k])
            has_no_sign = (subset, k) in without
            if relative < NOTABLE_PART and not has_no_sign and share == 1.0:
                continue
            words = [f"trainings differ by {relative:.0%} of its standard deviation"]
            if has_no_sign:
                words.append(f"their {LEVEL:.0%} band holds zero everywhere")
            if share < 1.0:
                words.append(f"{1 - share:.0%} of them do not have it")
            sentence = (
                f"The effect of {d.term_name(subset)}{output_words(d, k)} depends on the training: "
                f"{spread.n_models} {', '.join(words)}."
            )
            numbers = {
                "relative_change": relative,
                "present": share,
                "no_clear_sign": float(has_no_sign),
            }
            # What is at stake is what is not sure: all of an effect without a sign.
            severity = variance[k] if has_no_sign else between[k]
            severity = min(float(severity / total[k]), 1.0)
            findings.append(Finding("training", subset, k, severity, sentence, numbers))
    return findings
