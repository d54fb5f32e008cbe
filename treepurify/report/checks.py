"""What an audit looked for, as parts of a report."""

from treepurify.auditing.ranked_findings import Audit
from treepurify.report.parts import facts_list, plain_table

__all__ = ["checks_parts"]


def checks_parts(audit: Audit) -> list[str]:
    """Return what an audit looked for, by which rules, and what it drew at random."""
    worth, trainings = audit.worth, audit.trainings
    facts = [
        ("Threshold", f"{100 * audit.threshold:.3g} % of the variance of the prediction"),
        ("Measure", audit.decomposition.measure),
        ("Other measures", ", ".join(audit.comparisons) or "none"),
        (
            "Draws of the rows",
            f"{audit.n_bootstrap}, seed {audit.seed}" if audit.n_bootstrap else "none",
        ),
    ]
    if worth is None:
        facts.append(("Held-out rows", "none"))
    else:
        digest = worth.rows_fingerprint
        hashed = f"SHA-256 {digest} of the rows as read, the target and the weights"
        words = hashed if digest else "in batches, of which no hash was taken"
        facts.append(("Held-out rows", f"{worth.n_rows}: {words}"))
        if worth.notes:
            facts.append(("How they were used", " ".join(worth.notes)))
        if worth.n_bootstrap:
            draws = f"{worth.n_bootstrap}, seed {worth.seed}"
            facts.append(("Draws of the held-out rows", draws))
    facts.append(("Trainings", "1" if trainings is None else str(trainings.n_models)))
    rows = [[check.kind, check.among, check.rule, check.result] for check in audit.checks]
    head = ["Looked for", "Among", "Reported where, at least", "Findings"]
    note = "<p>Shares of the variance in the rules are of the variance of the prediction.</p>"
    table = plain_table("Checks made", head, rows)
    return [facts_list(facts), f'<div class="words">{table}</div>', note]
