"""Self-contained HTML reports of decompositions, of several side by side, and of a validation."""

from treepurify.report.comparison import write_comparison
from treepurify.report.html import write_html
from treepurify.report.validation import write_validation

__all__ = ["write_comparison", "write_html", "write_validation"]


def __dir__() -> list[str]:
    return __all__
