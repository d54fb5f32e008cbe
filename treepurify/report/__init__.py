"""Self-contained HTML reports of decompositions."""

from treepurify.report.html import write_html

__all__ = ["write_html"]
