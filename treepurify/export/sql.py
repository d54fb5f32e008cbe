"""A decomposition as one SQL query that gives the prediction of each row of a table."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from treepurify.arguments import brief, check_choice, check_result, read_names
from treepurify.budget import DEFAULT_BUDGET, check_budget
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.export.cell_rules import (
    NO_CELL,
    CellRule,
    IntervalRule,
    LabelRule,
    Lookup,
    read_lookups,
)
from treepurify.export.left_out import OnRemainder, Scale, check_link, leave_out_remainder
from treepurify.export.origin import origin
from treepurify.export.sql_dialects import DIALECTS, Dialect, DialectName, comment, name, text
from treepurify.typing import Array

__all__ = ["to_sql"]

# More alternatives than this become a CASE of CASEs, so that few of them are tried for a row.
_BRANCHES = 8
# Databases limit how deep an expression is; a sum of n terms is n deep.
_TERMS_IN_ONE_SUM = 200
_CHARACTERS_A_CELL = 48


def to_sql(
    d: Decomposition,
    *,
    table: str = "data",
    dialect: DialectName = "duckdb",
    keep: Sequence[str] = (),
    scale: Scale = "margin",
    remainder: OnRemainder = "refuse",
    memory_budget: int = DEFAULT_BUDGET,
) -> str:
    """Return a SQL query that gives the prediction of each row of a table.

    It is one ``SELECT`` statement with ``CASE`` expressions, which find the cell of each value and
    then add up the intercept and the effects in these cells. It needs only the table.

    Parameters
    ----------
    d : Decomposition
        A decomposition whose effects are tables of cells.
    table : str
        Name of the table. Its columns have the names of the features.
    dialect : {"duckdb", "sqlite", "postgresql"}
        The SQL dialect.
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
    treepurify.export.to_onnx : The predictions as an ONNX model.
    Decomposition.predict : The sum of all effects.

    Notes
    -----
    Numbers are compared in double precision, whatever the type of the column, and all digits of
    literals are written. NULL and NaN are missing values. If the decomposition has no cell for a
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
    >>> print(query[query.index("WITH") :])
    WITH inputs AS (
      SELECT t."id" AS keep_0,
        CAST(t."x0" AS DOUBLE) AS value_0
      FROM "data" AS t
    ), cells AS (
      SELECT keep_0,
        CASE WHEN value_0 IS NULL OR isnan(value_0) THEN NULL
          ELSE CASE WHEN value_0 < 0.5e0 THEN 0 ELSE 1 END END AS cell_0
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
    check_choice("dialect", dialect, DIALECTS)
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
    form = DIALECTS[dialect]
    _check_columns(len(rules) + len(keep), dialect)
    outputs = _output_names(d, keep, scale)
    kept = [f"keep_{k}" for k in range(len(keep))]
    steps = [
        f"inputs AS (\n{_inputs(d, rules, keep, table, form)}\n)",
        f"cells AS {form.materialized}(\n{_cells(rules, kept, form)}\n)",
        f"margins AS (\n{_margins(d, rules, lookups, kept, form)}\n)",
    ]
    margins = [f"margin_{k}" for k in range(d.n_outputs)]
    results = margins if scale == "margin" else _responses(d, margins, form)
    named = [f"{k} AS {name(own)}" for k, own in zip(kept, keep, strict=True)]
    named += [f"{value} AS {name(own)}" for value, own in zip(results, outputs, strict=True)]
    heading = [
        comment(
            f"{scale} by treepurify: {len(d)} effects of {len(d.feature_names)} features, "
            f"distribution: {d.measure}"
        )
    ]
    heading += [comment(f"without the remainder: {lost}")] if lost else []
    heading += [comment(f"{fact}: {value}") for fact, value in origin(d)]
    return "\n".join([*heading, f"WITH {', '.join(steps)}", _select(named, "margins", "")])


def _check_columns(count: int, dialect: DialectName) -> None:
    most = DIALECTS[dialect].most_columns
    if count > most:
        raise UnsupportedModelError(
            f"the query needs {count} intermediate columns, but {dialect} allows {most}: keep "
            "fewer effects, or export to another dialect"
        )


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


def _inputs(
    d: Decomposition, rules: Sequence[CellRule], keep: Sequence[str], table: str, form: Dialect
) -> str:
    columns = [f"t.{name(own)} AS keep_{k}" for k, own in enumerate(keep)]
    read: dict[int, CellRule] = {rule.feature: rule for rule in rules}
    for feature, rule in sorted(read.items()):
        column = f"t.{name(d.feature_names[feature])}"
        if isinstance(rule, LabelRule):
            columns.append(f"{form.as_text.format(column)} AS value_{feature}")
            continue
        cast = form.from_boolean if rule.is_boolean else form.as_number
        columns.append(f"{cast.format(column)} AS value_{feature}")
        if form.is_no_number:
            columns.append(f"{form.is_no_number.format(column)} AS odd_{feature}")
    return _select(columns or ["1 AS one"], f"{name(table)} AS t")


def _cells(rules: Sequence[CellRule], kept: Sequence[str], form: Dialect) -> str:
    columns = [f"{_cell(rule, form)} AS cell_{k}" for k, rule in enumerate(rules)]
    return _select([*kept, *columns] or ["1 AS one"], "inputs")


def _cell(rule: CellRule, form: Dialect) -> str:
    value = f"value_{rule.feature}"
    if isinstance(rule, IntervalRule):
        conditions = [f"{value} IS NULL"]
        conditions += [form.is_nan.format(value)] if form.is_nan else []
        odd = f"WHEN odd_{rule.feature} THEN NULL " if form.is_no_number else ""
        found = _choose(
            value,
            [form.number(start) for start in rule.starts.tolist()],
            [_cell_number(cell) for cell in rule.cells.tolist()],
        )
        return (
            f"CASE {odd}WHEN {' OR '.join(conditions)} THEN {_cell_number(rule.missing)}"
            f"\n      ELSE {found} END"
        )
    cases = [f"WHEN {value} IS NULL THEN {_cell_number(rule.missing)}"]
    for label, cell in zip(rule.labels, rule.cells.tolist(), strict=True):
        forms = [label, f"{label}.0"] if label.lstrip("-").isdecimal() else [label]
        known = [text(spelt) for spelt in forms if spelt == label or spelt not in rule.labels]
        test = f"= {known[0]}" if len(known) == 1 else f"IN ({', '.join(known)})"
        cases.append(f"WHEN {value}{form.equal_text} {test} THEN {_cell_number(cell)}")
    branches = "\n      ".join(cases)
    return f"CASE {branches}\n      ELSE {_cell_number(rule.other)} END"


def _cell_number(cell: int) -> str:
    return "NULL" if cell == NO_CELL else str(cell)


def _margins(
    d: Decomposition,
    rules: Sequence[CellRule],
    lookups: Sequence[Lookup],
    kept: Sequence[str],
    form: Dialect,
) -> str:
    columns = list(kept)
    unknown = [f"cell_{k} IS NULL" for k in range(len(rules))]
    for output in range(d.n_outputs):
        terms = [form.effect(float(d.intercept[output]))]
        for lookup in lookups:
            cells = [f"cell_{k}" for k in lookup.rules]
            effect = _look_up(lookup.values[..., output], cells, form)
            terms.append(f"{comment(d.term_name(lookup.subset))}\n      + {effect}")
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


def _look_up(values: Array, cells: Sequence[str], form: Dialect) -> str:
    """Return the entry of a table in the cells, by cases along one axis after the other."""
    if not cells:
        return form.effect(float(values))
    entries = [_look_up(part, cells[1:], form) for part in values]
    return _choose(cells[0], list(map(str, range(1, len(entries)))), entries)


def _choose(value: str, starts: Sequence[str], results: Sequence[str]) -> str:
    """Return the result of the last interval whose start is not above the value."""
    steps = [k for k, (one, next_one) in enumerate(pairwise(results)) if one != next_one]
    return _cases(value, [starts[k] for k in steps], [*(results[k] for k in steps), results[-1]])


def _cases(value: str, starts: Sequence[str], results: Sequence[str]) -> str:
    if len(results) == 1:
        return results[0]
    if len(results) > _BRANCHES:
        bounds = np.linspace(0, len(results), _BRANCHES + 1).astype(int).tolist()
        parts = [
            _cases(value, starts[low : high - 1], results[low:high])
            for low, high in pairwise(bounds)
        ]
        return _cases(value, [starts[high - 1] for high in bounds[1:-1]], parts)
    branches = [
        f"WHEN {value} < {start} THEN {result}"
        for start, result in zip(starts, results, strict=False)
    ]
    return f"CASE {' '.join(branches)} ELSE {results[-1]} END"


def _responses(d: Decomposition, margins: Sequence[str], form: Dialect) -> list[str]:
    """Return the inverse link of each output."""
    link = d.link.name
    if link == "logit":
        # Beyond these ends the response is 0 or 1 to the last digit, and some EXP overflow.
        one = form.effect(1.0)
        factor = form.effect(-d.link.scale)
        exponent = "CASE WHEN {0} > 700 THEN 700 WHEN {0} < -700 THEN -700 ELSE {0} END"
        return [
            f"{one} / ({one} + EXP({exponent.format(f'({factor} * {margin})')}))"
            for margin in margins
        ]
    if link == "log":
        return [f"EXP({margin})" for margin in margins]
    if link == "softmax":
        largest = f"{form.greatest}({', '.join(margins)})"
        exponentials = [
            f"EXP(CASE WHEN {margin} - {largest} < -700 THEN -700 ELSE {margin} - {largest} END)"
            for margin in margins
        ]
        return [f"{own} / ({' + '.join(exponentials)})" for own in exponentials]
    return list(margins)
