"""Sentences about a decomposition."""

from treepurify.decomposition import Decomposition
from treepurify.report.term_rows import term_rows

__all__ = ["largest_move"]


def largest_move(d: Decomposition) -> str:
    """Return where purification changed most, in words; nothing where it changed no interaction."""
    moved = [row for row in term_rows(d) if row.order > 1 and row.deviation_before > row.deviation]
    if not moved:
        return ""
    row = max(moved, key=lambda row: row.deviation_before - row.deviation)
    on = f" for output {d.output_names[row.output]}" if d.n_outputs > 1 else ""
    return (
        f"What purification does: in {row.name} the model carries effects of size "
        f"{row.deviation_before:.3g}{on}, but only {row.deviation:.3g} of that is interaction. The "
        "rest belongs to smaller effects, and has been added to them."
    )
