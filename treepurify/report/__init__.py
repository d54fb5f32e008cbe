"""Self-contained HTML reports of decompositions, and of several side by side."""

from treepurify.report.comparison_page import write_comparison
from treepurify.report.html import write_html
from treepurify.report.numbers import write_numbers
from treepurify.report.validation_page import write_validation

__all__ = ["write_comparison", "write_html", "write_numbers", "write_validation"]


def __dir__() -> list[str]:
    return __all__
