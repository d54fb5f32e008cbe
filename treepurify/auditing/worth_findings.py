"""What held-out rows say against effects: those that are large and worth nothing."""

import numpy as np

from treepurify.auditing.findings import Finding
from treepurify.comparing.apparent import model_variance
from treepurify.evidence.effect_worth_table import EffectWorth

__all__ = ["worthless_effects"]


def worthless_effects(worth: EffectWorth, threshold: float) -> list[Finding]:
    """Return the effects that carry variance but do not lower the held-out loss.

    One counts if its share of the variance of the prediction is at least `threshold` and the
    interval of its worth reaches down to zero; without an interval, if its worth does. Where that
    is not known (NaN), it does not count.

    Parameters
    ----------
    worth : EffectWorth
        What effects are worth on held-out rows.
    threshold : float
        Share of the variance of the prediction.
    """
    d = worth.decomposition
    total = model_variance(d)
    findings = []
    for place, subset in enumerate(worth.subsets):
        lowest = worth.low[place] if worth.n_bootstrap else worth.worth[place]
        # An interval that is not known says nothing against an effect.
        if not subset or not lowest <= 0:
            continue
        shares = d.components[subset].variance / np.where(total > 0, total, np.inf)
        k = int(np.argmax(shares))
        share = float(shares[k])
        if share < threshold:
            continue
        value = float(worth.worth[place])
        numbers = {"share": share, "worth": value, "model_loss": worth.model_loss}
        interval = ""
        if worth.n_bootstrap:
            low, high = float(worth.low[place]), float(worth.high[place])
            numbers |= {"low": low, "high": high}
            interval = f" ({worth.coverage:.0%} interval {low:.2g} to {high:.2g})"
        what = "main effect of" if len(subset) == 1 else "interaction"
        sentence = (
            f"The {what} {d.term_name(subset)} has {share:.1%} of the variance of the "
            f"prediction, but is not seen to help on {worth.n_rows} held-out rows: without it the "
            f"{worth.loss} changes by {value:+.2g}{interval}, from {worth.model_loss:.4g}."
        )
        findings.append(Finding("no worth", subset, k, share, sentence, numbers))
    return findings
