"""Numbers in sentences and tables, with few digits."""

__all__ = ["in_digits"]

_LARGEST_WITHOUT_EXPONENT = 1e7


def in_digits(value: float, digits: int = 4, *, sign: bool = False) -> str:
    """Return a number rounded to some digits, with an exponent only if it is huge or tiny.

    Examples
    --------
    >>> in_digits(15746.2), in_digits(0.123456, 2), in_digits(12.0, sign=True), in_digits(3e9)
    ('15750', '0.12', '+12', '3e+09')
    """
    plus = "+" if sign else ""
    text = f"{value:{plus}.{digits}g}"
    is_large = "e+" in text and abs(value) < _LARGEST_WITHOUT_EXPONENT
    return f"{float(text):{plus}.0f}" if is_large else text
