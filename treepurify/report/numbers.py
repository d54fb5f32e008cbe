"""Numbers as the page writes them."""

__all__ = ["with_minus"]


def with_minus(text: str) -> str:
    """Return a number with the minus sign of the figures, in its exponent, too."""
    return text.replace("-", "\N{MINUS SIGN}")
