"""How the dialects of SQL write numbers, text and types, each exactly."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from treepurify.errors import InvalidInputError

__all__ = ["DIALECTS", "Dialect", "DialectName", "comment", "name", "text"]

DialectName = Literal["duckdb", "sqlite", "postgresql"]


@dataclass(frozen=True)
class Dialect:
    """What differs between databases.

    Parameters
    ----------
    number : callable
        Writes a double that is compared with: exactly that number.
    effect : callable
        Writes a double that is added.
    as_number, as_text : str
        Casts; ``{}`` stands for the expression.
    from_boolean : str
        The cast of truth values to numbers.
    is_nan : str
        Whether a number is NaN; empty where the database has none.
    is_no_number : str
        Whether a column holds what is no number; empty where types exclude it.
    equal_text : str
        What stands behind text so that it is compared byte by byte.
    materialized : str
        What keeps the cells from being computed again wherever they are used.
    greatest : str
        The function that returns the largest of its arguments.
    most_columns : int
        Most columns of a subquery.
    """

    number: Callable[[float], str]
    effect: Callable[[float], str]
    as_number: str
    as_text: str
    from_boolean: str
    is_nan: str
    is_no_number: str
    equal_text: str
    materialized: str
    greatest: str
    most_columns: int


def text(value: str) -> str:
    """Return a literal of text."""
    return "'" + _without_null(value).replace("'", "''") + "'"


def name(value: str) -> str:
    """Return the name of a column or table, quoted."""
    if not value:
        raise InvalidInputError("a column or table of a database needs a name, got an empty one")
    return '"' + _without_null(value).replace('"', '""') + '"'


def comment(line: str) -> str:
    """Return a line of comment; what would end the line becomes a blank."""
    return "-- " + " ".join(line.split())


def _without_null(value: str) -> str:
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidInputError(
            f"{value!r} contains a character that no database takes as text; rename it"
        )
    return value


def _scientific(value: float) -> str:
    # With an exponent a literal is a double; without one it is a decimal in some dialects.
    written = repr(float(value))
    return written if "e" in written else f"{written}e0"


def _duckdb_number(value: float) -> str:
    return _scientific(value) if np.isfinite(value) else f"CAST('{value}' AS DOUBLE)"


def _postgresql_number(value: float) -> str:
    if np.isfinite(value):
        return f"{_scientific(value)}::float8"
    return f"'{'Infinity' if value > 0 else '-Infinity'}'::float8"


# SQLite rounds decimals by its own arithmetic, and older versions may miss the nearest double in
# the last digit. Whole numbers below 2**53 and divisions by powers of two are exact in all.
_MOST_EXACT = 2**53


def _sqlite_number(value: float) -> str:
    if not np.isfinite(value):
        return "9e999" if value > 0 else "-9e999"
    written = repr(float(value))
    digits = sum(character.isdigit() for character in written.partition("e")[0])
    if Fraction(written) == Fraction(value) and digits <= 15:
        return _scientific(value)
    numerator, denominator = float(value).as_integer_ratio()
    parts = []
    while abs(numerator) > _MOST_EXACT:
        # A double has at most 53 significant bits; the others are zeros.
        factor = 2 ** min(abs(numerator).bit_length() - 53, 52)
        numerator //= factor
        parts.append(f"*{factor}.0")
    while denominator > 1:
        parts.append(f"/{min(denominator, _MOST_EXACT)}.0")
        denominator //= min(denominator, _MOST_EXACT)
    return f"({numerator}*1.0{''.join(parts)})"


DIALECTS: dict[str, Dialect] = {
    "duckdb": Dialect(
        number=_duckdb_number,
        effect=_duckdb_number,
        as_number="CAST({} AS DOUBLE)",
        as_text="CAST({} AS VARCHAR)",
        from_boolean="CAST({} AS DOUBLE)",
        is_nan="isnan({})",
        is_no_number="",
        equal_text="",
        materialized="",
        greatest="GREATEST",
        most_columns=10_000,
    ),
    "sqlite": Dialect(
        number=_sqlite_number,
        effect=_scientific,
        as_number="CAST({} AS REAL)",
        as_text="CAST({} AS TEXT)",
        from_boolean="CAST({} AS REAL)",
        is_nan="",
        is_no_number="typeof({}) IN ('text', 'blob')",
        equal_text=" COLLATE BINARY",
        materialized="MATERIALIZED ",
        greatest="MAX",
        most_columns=2_000,
    ),
    "postgresql": Dialect(
        number=_postgresql_number,
        effect=_postgresql_number,
        as_number="CAST({} AS double precision)",
        as_text="CAST({} AS text)",
        from_boolean="CAST(CAST({} AS integer) AS double precision)",
        is_nan="{} = 'NaN'::float8",
        is_no_number="",
        equal_text="",
        materialized="MATERIALIZED ",
        greatest="GREATEST",
        most_columns=1_600,
    ),
}
