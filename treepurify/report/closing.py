"""The last sections of a report: the certificate, the checks made, and what was decomposed."""

from collections import Counter
from html import escape

from treepurify.auditing.ranked_findings import Audit
from treepurify.decomposition import Decomposition
from treepurify.origin import ModelFacts
from treepurify.plots.labels import scale_sentence, with_minus
from treepurify.report.making import model_words
from treepurify.report.parts import (
    facts_list,
    folded_section,
    plain_table,
    section,
    verdict_parts,
)
from treepurify.verdict import explained_in_words, measure_words, verdict

__all__ = ["certificate", "checks", "lead", "overview"]

_INTRODUCTION = (
    "The model is written as an intercept plus effects of single features and of groups of features"
)
_PURIFICATION = (
    "Purification moves everything that fewer features can express out of the larger effects, so "
    "that each effect has mean zero given any of its features, and the sum is still the model. "
    "Means are over the distribution of the features, which may be that of smoothed rows; what an "
    "effect means depends on it."
)
_OTHERWISE = (
    "What an effect means depends on the method and on the distribution of the features; the "
    "certificate, if there is one, states how accurate the effects are."
)
_NO_CONDITIONAL_MEANS = 1e-8


def lead(d: Decomposition) -> str:
    """Return the first line of a report: what was decomposed, and what effects are about."""
    model = model_words(d)
    words = f"{model}. " if model else ""
    rows = f" Averages are over {d.origin.n_rows:,} rows." if d.origin.n_rows else ""
    effects = f"{len(d)} effects" if len(d) != 1 else "1 effect"
    return f"{words}{effects} of {len(d.feature_names)} features.{rows}"


def overview(d: Decomposition) -> str:
    """Return how effects are to be read, and what was decomposed."""
    model = d.origin.model or ModelFacts()
    rows = d.origin.n_rows
    orders = Counter(len(subset) for subset in d.components)
    per_order = [
        f"{orders[size]} of {size} feature{'' if size == 1 else 's'}" for size in sorted(orders)
    ]
    features = f"{len(d.feature_names)}: {', '.join(d.feature_names[:30])}"
    if len(d.feature_names) > 30:
        features += ", ..."
    outputs = "1" if d.n_outputs == 1 else f"{d.n_outputs}: {', '.join(d.output_names)}"
    return folded_section(
        "overview",
        "Model and method",
        f"<p>{escape(_introduction(d))}</p>",
        facts_list(
            [
                ("Model", model_words(d)),
                ("Features", features),
                ("Outputs", outputs),
                ("Class labels", ", ".join(map(str, model.class_labels))),
                ("Scale of effects", scale_sentence(d)),
                ("Distribution", d.measure),
                ("Method", _method_in_words(d)),
                ("Explained", _explained_in_words(d)),
                ("Rows", f"{rows:,}" if rows is not None else "none"),
                ("Effects", ", ".join(per_order)),
                ("Intercept", ", ".join(with_minus(f"{value:.6g}") for value in d.intercept)),
                ("Notes", " ".join(model.notes)),
            ]
        ),
    )


def _method_in_words(d: Decomposition) -> str:
    method = d.origin.method or d.engine
    fitted = {
        "projection": ", fitted tree by tree",
        "coarse": ", fitted on coarse cells",
    }
    return method + fitted.get(method, "")


def _explained_in_words(d: Decomposition) -> str:
    share = explained_in_words(d)
    return f"{share}; the remainder contains the rest" if share else ""


def certificate(d: Decomposition) -> str:
    """Return the verdict with its figures; empty where there is nothing to say."""
    found = verdict(d)
    if not found.lines:
        return ""
    figures = [] if d.certificate is None else d.certificate.details()
    heading = "Remainder" if d.certificate is None else "Certificate"
    measure = measure_words(d)
    words = f"<p>{escape(measure)}</p>" if measure else ""
    return section("certificate", heading, words, *verdict_parts(found, figures))


def _introduction(d: Decomposition) -> str:
    means = None if d.certificate is None else d.certificate.conditional_mean
    is_pure = means is not None and means < _NO_CONDITIONAL_MEANS
    rest = "." if d.remainder is None else ", plus a remainder that these effects do not explain."
    return f"{_INTRODUCTION}{rest} {_PURIFICATION if is_pure else _OTHERWISE}"


def checks(audit: Audit | None) -> str:
    """Return what an audit looked for, by which rules, and what it drew at random."""
    if audit is None:
        return ""
    worth, trainings = audit.worth, audit.trainings
    facts = [
        ("Threshold", f"{100 * audit.threshold:.3g}% of the variance of the prediction"),
        ("Distribution", audit.decomposition.measure),
        ("Other distributions", ", ".join(audit.comparisons) or "none"),
        (
            "Draws of the rows",
            f"{audit.n_bootstrap}, seed {audit.seed}" if audit.n_bootstrap else "none",
        ),
    ]
    if worth is None:
        facts.append(("Held-out rows", "none"))
    else:
        hashed = f"SHA-256 {worth.rows_fingerprint} of the rows as read, the target and the weights"
        facts.append(("Held-out rows", f"{worth.n_rows}: {hashed}"))
        if worth.notes:
            facts.append(("Notes on these rows", " ".join(worth.notes)))
        if worth.n_bootstrap:
            draws = f"{worth.n_bootstrap}, seed {worth.seed}"
            facts.append(("Draws of the held-out rows", draws))
    facts.append(("Trainings", "1" if trainings is None else str(trainings.n_models)))
    rows = [[check.kind, check.among, check.rule, check.result] for check in audit.checks]
    head = ["Checked for", "Among", "Rule", "Findings"]
    note = "<p>In the rules, variance is the variance of the prediction.</p>"
    table = plain_table("Checks made", head, rows)
    words = f'<div class="words">{table}</div>'
    return folded_section("checks", "Checks made", facts_list(facts), words, note)
