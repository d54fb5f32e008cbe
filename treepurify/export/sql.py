"""A decomposition as one SQL query that gives the prediction of each row of a table."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from treepurify.arguments import brief, check_choice, check_result, read_names
from treepurify.budget import DEFAULT_BUDGET, check_budget
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.export.cell_rules import (
    NO_CELL,
    CellRule,
    IntervalRule,
    LabelRule,
    Lookup,
    read_lookups,
)
from treepurify.export.left_out import OnRemainder, Scale, check_link, leave_out_remainder
from treepurify.origin import ModelFacts
from treepurify.typing import Array

_MOST_LISTED = 50


def origin(d: Decomposition) -> list[tuple[str, str]]:
    """Return the facts by which an exported file can be traced, as names and values.

    The library, the hash and the class labels of the model, what was edited with how far
    predictions moved, the rows of the measure, the columns that rows must have because a pipeline
    or CatBoost makes them, the categories of which only hashes are known, and the version that
    wrote the file. What is not known is left out.

    Parameters
    ----------
    d : Decomposition
        What is exported.
    """
    from treepurify import __version__

    model = d.origin.model or ModelFacts()
    named = " ".join(filter(None, (model.library, model.version, model.kind)))
    rows = d.origin.n_rows
    edits = d.certificate.edits if d.certificate is not None else ()
    if not edits and d.origin.edits:
        edits = ("its effects were edited",)
    facts = [
        ("model", named),
        ("model SHA-256", model.sha256),
        ("class labels", ", ".join(map(repr, model.class_labels))),
        ("no longer the model", " ".join(edits)),
        ("rows of the distribution", "" if rows is None else str(rows)),
        ("derived columns that rows must have", _made_columns(d)),
        ("categories without a label (CatBoost stores only their hash)", _without_label(d)),
        ("written by", f"treepurify {__version__}"),
    ]
    return [(name, value) for name, value in facts if value]


def _made_columns(d: Decomposition) -> str:
    """Return names of derived columns with the raw columns that each is made from."""
    made = [spec for spec in d.inputs.features if spec.made_from]
    listed = [f"{spec.name!r} from {', '.join(spec.made_from)}" for spec in made[:_MOST_LISTED]]
    more = [f"{len(made) - len(listed)} more"] if len(made) > len(listed) else []
    return "; ".join([*listed, *more])


def _without_label(d: Decomposition) -> str:
    """Return how many categories of features with effects have no label: ``'city' 20 of 200``."""
    used = sorted({j for subset in d.components for j in subset})
    features = [d.inputs.features[j] for j in used]
    counts = [(spec, len(spec.hash_only)) for spec in features]
    return "; ".join(f"{spec.name!r} {count} of {spec.n_codes}" for spec, count in counts if count)


# More alternatives than this become a CASE of CASEs, so that few of them are tried for a row.
_BRANCHES = 8
# Databases limit how deep an expression is; a sum of n terms is n deep.
_TERMS_IN_ONE_SUM = 200
_CHARACTERS_A_CELL = 48
# Whole numbers below it, and divisions by powers of two, are exact in every database.
_MOST_EXACT = 2**53
_MOST_DIGITS = 15


def to_sql(
    d: Decomposition,
    *,
    table: str = "data",
    keep: Sequence[str] = (),
    scale: Scale = "margin",
    remainder: OnRemainder = "refuse",
    memory_budget: int = DEFAULT_BUDGET,
) -> str:
    r"""Return a SQL query that gives the prediction of each row of a table.

    It is one ``SELECT`` statement with ``CASE`` expressions, which find the cell of each value and
    then add up the intercept and the effects in these cells. It needs only the table. DuckDB and
    SQLite run the same text, and find the same cells.

    Parameters
    ----------
    d : Decomposition
        A decomposition whose effects are tables of cells.
    table : str
        Name of the table. Its columns have the names of the features.
    keep : sequence of str
        Other columns of the table to return, such as a key to identify rows, whose order depends on
        the database.
    scale : {"margin", "response"}
        Scale of the predictions: the margin, or the response (after the inverse link).
    remainder : {"refuse", "drop"}
        What to do with a remainder (effects above the order of the decomposition), which is not a
        table: raise an error, or leave it out with a `RemainderWarning` that states its size.
    memory_budget : int
        Bytes that the text may take.

    Returns
    -------
    str
        The query, without a semicolon at the end. It returns the columns in `keep` and then
        ``margin`` or ``response``; if there are several outputs, one column for each, such as
        ``margin_setosa``.

    Raises
    ------
    InvalidInputError
        If an effect is not a table, or two columns of the result have the same name.
    UnsupportedModelError
        If there is a remainder that is not to be dropped, or a column or the link cannot be
        expressed in SQL.
    MemoryBudgetError
        If the text would be too long.

    See Also
    --------
    treepurify.export.to_ebm : The effects as the terms of an EBM.
    Decomposition.predict : The sum of all effects.

    Notes
    -----
    Numbers are compared in double precision, whatever the type of the column. SQLite may read a
    decimal one digit off, so a cut of many digits is a whole number divided by powers of two. NULL
    and NaN are missing values. If the decomposition has no cell for a
    value, the prediction is NULL (``d.predict`` raises an error); with ``missing_cells="always"``
    of `purify`, every feature has cells for missing and unseen values.

    A categorical column must contain the labels of the training data, or codes if the model does
    not store labels. Text labels are compared as text; labels that are whole numbers may end in
    ``.0``, since databases write such numbers in both ways. CatBoost stores categories as hashes.
    If a column has categories that occur in no row of the decomposition, a text that is in none of
    these rows gives NULL.

    If a pipeline or CatBoost derives columns from others, the table must contain these as well:
    ``tp.parse_model(model, X=X).derived_columns(X)`` returns them.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from treepurify.export import to_sql
    >>> X = np.array([[0.0], [1.0]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0.0, 4.0]), X)
    >>> query = to_sql(d, keep=["id"])
    >>> print("\n".join(line[:72] for line in query[query.index("WITH") :].splitlines()))
    WITH inputs AS (
      SELECT t."id" AS keep_0,
        CAST(t."x0" AS DOUBLE) AS value_0,
        typeof(t."x0") IN ('text', 'blob') AS odd_0
      FROM "data" AS t
    ), cells AS MATERIALIZED (
      SELECT keep_0,
        CASE WHEN odd_0 THEN NULL WHEN value_0 IS NULL OR CAST(value_0 AS VA
          ELSE CASE WHEN value_0 < (4503599895805953*1e0/9007199254740992e0)
      FROM inputs
    ), margins AS (
      SELECT keep_0,
        CASE WHEN (cell_0 IS NULL) THEN NULL ELSE
          (2.0e0
          -- x0
          + CASE WHEN cell_0 < 1 THEN -2.0e0 ELSE 2.0e0 END) END AS margin_0
      FROM cells
    )
    SELECT keep_0 AS "id", margin_0 AS "margin" FROM margins
    """
    check_result("d", d, Decomposition)
    check_choice("scale", scale, ("margin", "response"))
    if not isinstance(table, str):
        raise InvalidInputError(f"table must be the name of a table, got {brief(table)}")
    keep = read_names("keep", keep)
    lost = leave_out_remainder(d, remainder, "a SQL query")
    if scale == "response":
        check_link(d.link, d.n_outputs)
    n_cells = sum(c.n_cells for c in d.tensor_components().values()) * d.n_outputs
    check_budget(
        _CHARACTERS_A_CELL * n_cells,
        memory_budget,
        f"a query of {n_cells} table values",
        "Keep fewer or smaller effects.",
    )
    rules, lookups = read_lookups(d)
    outputs = _output_names(d, keep, scale)
    kept = [f"keep_{k}" for k in range(len(keep))]
    steps = [
        f"inputs AS (\n{_inputs(d, rules, keep, table)}\n)",
        f"cells AS MATERIALIZED (\n{_cells(rules, kept)}\n)",
        f"margins AS (\n{_margins(d, rules, lookups, kept)}\n)",
    ]
    margins = [f"margin_{k}" for k in range(d.n_outputs)]
    results = margins if scale == "margin" else _responses(d, margins)
    named = [f"{k} AS {_name(own)}" for k, own in zip(kept, keep, strict=True)]
    named += [f"{value} AS {_name(own)}" for value, own in zip(results, outputs, strict=True)]
    heading = [
        _comment(
            f"{scale} by treepurify: {len(d)} effects of {len(d.feature_names)} features, "
            f"distribution: {d.measure}"
        )
    ]
    heading += [_comment(f"without the remainder: {lost}")] if lost else []
    heading += [_comment(f"{fact}: {value}") for fact, value in origin(d)]
    return "\n".join([*heading, f"WITH {', '.join(steps)}", _select(named, "margins", "")])


def _output_names(d: Decomposition, keep: Sequence[str], scale: str) -> list[str]:
    names = [scale] if d.n_outputs == 1 else [f"{scale}_{output}" for output in d.output_names]
    # Databases take names that differ in case only for the same.
    known = [own.lower() for own in (*keep, *names)]
    repeated = sorted({own for own in known if known.count(own) > 1})
    if repeated:
        raise InvalidInputError(
            f"the result would have several columns called {repeated}; leave these columns out of "
            "keep"
        )
    return names


def _select(columns: Sequence[str], source: str, indent: str = "  ") -> str:
    if not indent:
        return f"SELECT {', '.join(columns)} FROM {source}"
    return f"{indent}SELECT " + f",\n{indent}  ".join(columns) + f"\n{indent}FROM {source}"


def _inputs(d: Decomposition, rules: Sequence[CellRule], keep: Sequence[str], table: str) -> str:
    columns = [f"t.{_name(own)} AS keep_{k}" for k, own in enumerate(keep)]
    read: dict[int, CellRule] = {rule.feature: rule for rule in rules}
    for feature, rule in sorted(read.items()):
        column = f"t.{_name(d.feature_names[feature])}"
        if isinstance(rule, LabelRule):
            # Joined with nothing, text is compared byte by byte, however the column is declared.
            columns.append(f"CAST({column} AS VARCHAR) || '' AS value_{feature}")
            continue
        columns.append(f"CAST({column} AS DOUBLE) AS value_{feature}")
        # Of a database that takes text in a column of numbers.
        columns.append(f"typeof({column}) IN ('text', 'blob') AS odd_{feature}")
    return _select(columns or ["1 AS one"], f"{_name(table)} AS t")


def _cells(rules: Sequence[CellRule], kept: Sequence[str]) -> str:
    columns = [f"{_cell(rule)} AS cell_{k}" for k, rule in enumerate(rules)]
    return _select([*kept, *columns] or ["1 AS one"], "inputs")


def _cell(rule: CellRule) -> str:
    value = f"value_{rule.feature}"
    if isinstance(rule, IntervalRule):
        found = _choose(
            [_below(value, start) for start in rule.starts.tolist()],
            [_cell_number(cell) for cell in rule.cells.tolist()],
        )
        return (
            f"CASE WHEN odd_{rule.feature} THEN NULL WHEN {value} IS NULL OR "
            f"CAST({value} AS VARCHAR) = 'nan' THEN {_cell_number(rule.missing)}"
            f"\n      ELSE {found} END"
        )
    cases = [f"WHEN {value} IS NULL THEN {_cell_number(rule.missing)}"]
    for label, cell in zip(rule.labels, rule.cells.tolist(), strict=True):
        forms = [label, f"{label}.0"] if label.lstrip("-").isdecimal() else [label]
        known = [_text(spelt) for spelt in forms if spelt == label or spelt not in rule.labels]
        test = f"= {known[0]}" if len(known) == 1 else f"IN ({', '.join(known)})"
        cases.append(f"WHEN {value} {test} THEN {_cell_number(cell)}")
    branches = "\n      ".join(cases)
    return f"CASE {branches}\n      ELSE {_cell_number(rule.other)} END"


def _below(value: str, start: float) -> str:
    """Return the condition that a value is below the start of an interval."""
    if np.isfinite(start):
        return f"{value} < {_exact(start)}"
    # Neither database writes infinity as a number.
    return f"{value} <= {_exact(np.finfo(np.float64).max)}" if start > 0 else "1 = 0"


def _cell_number(cell: int) -> str:
    return "NULL" if cell == NO_CELL else str(cell)


def _margins(
    d: Decomposition, rules: Sequence[CellRule], lookups: Sequence[Lookup], kept: Sequence[str]
) -> str:
    columns = list(kept)
    unknown = [f"cell_{k} IS NULL" for k in range(len(rules))]
    for output in range(d.n_outputs):
        terms = [_scientific(d.intercept[output])]
        for lookup in lookups:
            cells = [f"cell_{k}" for k in lookup.rules]
            effect = _look_up(lookup.values[..., output], cells)
            terms.append(f"{_comment(d.term_name(lookup.subset))}\n      + {effect}")
        total = _grouped(terms)
        if unknown:
            condition = " OR ".join(f"({' OR '.join(group)})" for group in _groups(unknown))
            total = f"CASE WHEN {condition} THEN NULL ELSE\n      {total} END"
        columns.append(f"{total} AS margin_{output}")
    return _select(columns, "cells")


def _groups(parts: Sequence[str]) -> list[Sequence[str]]:
    return [parts[k : k + _TERMS_IN_ONE_SUM] for k in range(0, len(parts), _TERMS_IN_ONE_SUM)]


def _grouped(terms: Sequence[str]) -> str:
    """Return a sum of sums, so that no expression is too deep."""
    first, *others = _groups(terms)
    sums = ["(" + "\n      ".join(first) + ")"]
    sums += ["(0e0\n      " + "\n      ".join(group) + ")" for group in others]
    return "\n      + ".join(sums)


def _look_up(values: Array, cells: Sequence[str]) -> str:
    """Return the entry of a table in the cells, by cases along one axis after the other."""
    if not cells:
        return _scientific(values)
    entries = [_look_up(part, cells[1:]) for part in values]
    return _choose([f"{cells[0]} < {k}" for k in range(1, len(entries))], entries)


def _choose(below: Sequence[str], results: Sequence[str]) -> str:
    """Return the result of the last interval whose start is not above the value.

    Parameters
    ----------
    below : sequence of str
        For each interval but the first, the condition that the value is below its start.
    results : sequence of str
        What each interval gives.
    """
    steps = [k for k, (one, next_one) in enumerate(pairwise(results)) if one != next_one]
    return _cases([below[k] for k in steps], [*(results[k] for k in steps), results[-1]])


def _cases(below: Sequence[str], results: Sequence[str]) -> str:
    if len(results) == 1:
        return results[0]
    if len(results) > _BRANCHES:
        bounds = np.linspace(0, len(results), _BRANCHES + 1).astype(int).tolist()
        parts = [_cases(below[low : high - 1], results[low:high]) for low, high in pairwise(bounds)]
        return _cases([below[high - 1] for high in bounds[1:-1]], parts)
    branches = [f"WHEN {test} THEN {one}" for test, one in zip(below, results, strict=False)]
    return f"CASE {' '.join(branches)} ELSE {results[-1]} END"


def _responses(d: Decomposition, margins: Sequence[str]) -> list[str]:
    """Return the inverse link of each output."""
    if d.link.name == "logit":
        factor = _scientific(-d.link.scale)
        return [f"1e0 / (1e0 + {_exponential(f'{factor} * {margin}')})" for margin in margins]
    if d.link.name == "log":
        return [f"EXP({margin})" for margin in margins]
    if d.link.name == "softmax":
        sums = [
            " + ".join(_exponential(f"{other} - {own}") for other in margins) for own in margins
        ]
        return [f"1e0 / ({total})" for total in sums]
    return list(margins)


def _exponential(exponent: str) -> str:
    """Return an exponential that does not overflow: what divides one is then zero anyway."""
    return f"EXP(CASE WHEN {exponent} > 700 THEN 700 ELSE {exponent} END)"


def _scientific(value: Any) -> str:
    # With an exponent a literal is a double; without one it is a decimal in DuckDB.
    written = repr(float(value))
    return written if "e" in written else f"{written}e0"


def _exact(value: float) -> str:
    """Return a double that both databases read to the last bit."""
    written = repr(float(value))
    digits = sum(character.isdigit() for character in written.partition("e")[0])
    if Fraction(written) == Fraction(value) and digits <= _MOST_DIGITS:
        return _scientific(value)
    numerator, denominator = float(value).as_integer_ratio()
    parts = []
    while abs(numerator) > _MOST_EXACT:
        # A double has at most 53 significant bits; the others are zeros.
        factor = 2 ** min(abs(numerator).bit_length() - 53, 52)
        numerator //= factor
        parts.append(f"*{factor}e0")
    while denominator > 1:
        parts.append(f"/{min(denominator, _MOST_EXACT)}e0")
        denominator //= min(denominator, _MOST_EXACT)
    return f"({numerator}*1e0{''.join(parts)})"


def _text(value: str) -> str:
    """Return a literal of text."""
    return "'" + _without_null(value).replace("'", "''") + "'"


def _name(value: str) -> str:
    """Return the name of a column or table, quoted."""
    if not value:
        raise InvalidInputError("a column or table of a database needs a name, got an empty one")
    return '"' + _without_null(value).replace('"', '""') + '"'


def _comment(line: str) -> str:
    """Return a line of comment; what would end the line becomes a blank."""
    return "-- " + " ".join(line.split())


def _without_null(value: str) -> str:
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidInputError(
            f"{value!r} contains a character that no database takes as text; rename it"
        )
    return value
