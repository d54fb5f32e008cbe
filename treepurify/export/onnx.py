"""A decomposition as an ONNX model, in double precision."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_choice, check_result
from treepurify.budget import DEFAULT_BUDGET, check_budget, check_memory_budget
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError, MissingDependencyError, UnsupportedModelError
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
from treepurify.storage import write_atomically
from treepurify.typing import Array, Indices

__all__ = ["to_onnx"]

# The first versions with everything that is used; runtimes since the middle of 2022 know them.
_OPERATORS, _MACHINE_LEARNING_OPERATORS, _FILE_FORMAT = 17, 3, 8
_MOST_BYTES = 2**31 - 1


def to_onnx(
    d: Decomposition,
    path: str | Path | None = None,
    *,
    scale: Scale = "margin",
    input_type: Literal["float64", "float32"] = "float64",
    remainder: OnRemainder = "refuse",
    memory_budget: int = DEFAULT_BUDGET,
) -> Any:
    """Return an ONNX model of the predictions, and write it to a file if `path` is passed.

    It has one input for each feature that has an effect, with the name of the feature: a tensor of
    shape (n_rows, 1), numeric, or text if the categories of the feature have text labels. Its
    output has the name given by `scale`, double precision, and shape (n_rows, n_outputs).

    Parameters
    ----------
    d : Decomposition
        A decomposition whose effects are tables of cells.
    path : str or Path, optional
        The file to write; an existing one is replaced.
    scale : {"margin", "response"}
        Scale of the predictions: the margin, or the response (after the inverse link).
    input_type : {"float64", "float32"}
        Type of numeric inputs. With ``"float32"``, split points are adjusted so that predictions
        equal those of ``d.predict`` on the rounded numbers; rounding a number may still move it
        across a split point.
    remainder : {"refuse", "drop"}
        What to do with a remainder (effects above the order of the decomposition), which is not a
        table: raise an error, or leave it out with a `RemainderWarning` that states its size.
    memory_budget : int
        Bytes that the tables may take.

    Returns
    -------
    onnx.ModelProto

    Raises
    ------
    InvalidInputError
        If an effect is not a table, a feature has the name of the output, or the folder does not
        exist.
    UnsupportedModelError
        If there is a remainder that is not to be dropped, there are no effects, or a column or the
        link cannot be expressed in ONNX.
    MemoryBudgetError
        If the tables would not fit.
    MissingDependencyError
        If onnx is not installed.

    See Also
    --------
    treepurify.export.to_sql : The predictions as a SQL query.
    treepurify.export.to_ebm : The effects as an EBM.

    Notes
    -----
    Only standard operators in double precision are used, since the tree operators of ONNX sum in
    single precision. NaN is a missing number, and empty text a missing category (unless the model
    has empty text as a category). If the decomposition has no cell for a value, the prediction is
    NaN (``d.predict`` raises an error); with ``missing_cells="always"`` of `purify`, every feature
    has cells for missing and unseen values. The prediction is also NaN for text that is in no row
    of the decomposition, if CatBoost stores categories of the column only as hashes. Columns that a
    pipeline or CatBoost derives from others are inputs as well:
    ``tp.parse_model(model, X=X).derived_columns(X)`` returns them.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from treepurify.export import to_onnx
    >>> X = np.array([[0.0], [1.0]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0.0, 4.0]), X)
    >>> model = to_onnx(d)
    >>> import onnxruntime
    >>> session = onnxruntime.InferenceSession(model.SerializeToString())
    >>> session.run(None, {"x0": X})[0].ravel()
    array([0., 4.])
    """
    check_result("d", d, Decomposition)
    check_choice("scale", scale, ("margin", "response"))
    check_choice("input_type", input_type, ("float64", "float32"))
    lost = leave_out_remainder(d, remainder, "an ONNX model")
    if scale == "response":
        check_link(d.link, d.n_outputs)
    _check_size(d, memory_budget)
    rules, lookups = read_lookups(d)
    if not lookups:
        raise UnsupportedModelError(
            "the decomposition has no effects, so an ONNX model of it would have no inputs"
        )
    graph = _Graph(_library(), np.dtype(input_type))
    inputs = _inputs(graph, d, rules, scale)
    cells = [_cell(graph, f"cell_{k}", inputs[rule.feature], rule) for k, rule in enumerate(rules)]
    terms = [
        _look_up(graph, f"term_{k}", lookup, [cells[r] for r in lookup.rules], rules)
        for k, lookup in enumerate(lookups)
    ]
    margin = graph.node("Sum", [graph.constant("intercept", d.intercept[None]), *terms])
    _write_output(graph, d, margin, scale)
    model = graph.model(d, scale, lost)
    if path is not None:
        write_atomically(path, model.SerializeToString())
    return model


def _check_size(d: Decomposition, memory_budget: int) -> None:
    check_memory_budget(memory_budget)
    n_cells = sum(
        int(np.prod([axis.n_cells + 1 for axis in component.axes]))
        for component in d.tensor_components().values()
    )
    check_budget(
        8 * n_cells * d.n_outputs,
        min(memory_budget, _MOST_BYTES),
        f"an ONNX model of {n_cells} table values",
        "Keep fewer or smaller effects (an ONNX file cannot exceed 2 GiB).",
    )


def _library() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise MissingDependencyError(
            'writing ONNX models needs onnx: pip install "treepurify[onnx]"'
        ) from error
    return onnx


@dataclass
class _Graph:
    """Nodes, constants, inputs and outputs as they are added; names are numbered."""

    onnx: Any
    input_type: np.dtype[Any]
    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    inputs: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)

    def constant(self, name: str, values: npt.ArrayLike) -> str:
        """Add a constant, and return its name."""
        name = f"treepurify/{name}"
        self.constants[name] = self.onnx.numpy_helper.from_array(np.asarray(values), name)
        return name

    def node(self, operator: str, inputs: list[str], name: str = "", **attributes: Any) -> str:
        """Add an operation, and return the name of its result."""
        name = name or f"treepurify/{operator}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, [name], **attributes))
        return name

    def number(self, value: int) -> str:
        """Return the name of a whole number."""
        return self.constant(f"number_{value}", np.array(value, dtype=np.int64))

    def model(self, d: Decomposition, scale: str, lost: str) -> Any:
        """Return the model, which the checker of ONNX has accepted."""
        helper = self.onnx.helper
        graph = helper.make_graph(
            self.nodes, "treepurify", self.inputs, self.outputs, [*self.constants.values()]
        )
        model = helper.make_model(
            graph,
            opset_imports=[
                helper.make_opsetid("", _OPERATORS),
                helper.make_opsetid("ai.onnx.ml", _MACHINE_LEARNING_OPERATORS),
            ],
            ir_version=_FILE_FORMAT,
            producer_name="treepurify",
        )
        facts = {"scale": scale, "link": d.link.name, "measure": d.measure}
        facts |= {"outputs": "\n".join(d.output_names)}
        facts |= {"without the remainder": lost} if lost else {}
        facts |= dict(origin(d))
        helper.set_model_props(model, facts)
        self.onnx.checker.check_model(model)
        return model


def _inputs(graph: _Graph, d: Decomposition, rules: list[CellRule], scale: str) -> dict[int, str]:
    """Add the inputs, and return the name of each, by feature."""
    names = {rule.feature: d.feature_names[rule.feature] for rule in rules}
    if scale in names.values() or "" in names.values():
        raise InvalidInputError(
            f"a feature has the name of the output, {scale!r}, or no name: rename the feature"
        )
    types = graph.onnx.TensorProto
    of_numbers = types.DOUBLE if graph.input_type == np.float64 else types.FLOAT
    for feature, rule in sorted({rule.feature: rule for rule in rules}.items()):
        kind = types.STRING if isinstance(rule, LabelRule) else of_numbers
        graph.inputs.append(
            graph.onnx.helper.make_tensor_value_info(names[feature], kind, ["rows", 1])
        )
    return names


def _cell(graph: _Graph, name: str, column: str, rule: CellRule) -> str:
    """Add the operations that find the cell of each row, and return the name of their result."""
    flat = graph.constant("flat", np.array([-1], dtype=np.int64))
    if isinstance(rule, LabelRule):
        return graph.node("Reshape", [_encode(graph, column, rule), flat])
    starts, cells = _distinct(rule)
    is_beyond = graph.node(
        "GreaterOrEqual", [column, graph.constant(f"{name}_starts", _as_type(starts, graph))]
    )
    counted = graph.node("Cast", [is_beyond], to=graph.onnx.TensorProto.INT64)
    along = graph.constant("along", np.array([1], dtype=np.int64))
    interval = graph.node("ReduceSum", [counted, along], keepdims=0)
    found = graph.node("Gather", [graph.constant(f"{name}_cells", cells), interval])
    is_missing = graph.node("Reshape", [graph.node("IsNaN", [column]), flat])
    return graph.node("Where", [is_missing, graph.number(_known(rule.missing, rule)), found])


def _encode(graph: _Graph, column: str, rule: LabelRule) -> str:
    known = dict(zip(rule.labels, (_known(cell, rule) for cell in rule.cells), strict=True))
    known.setdefault("", _known(rule.missing, rule))
    return graph.node(
        "LabelEncoder",
        [column],
        domain="ai.onnx.ml",
        keys_strings=list(known),
        values_int64s=list(known.values()),
        default_int64=_known(rule.other, rule),
    )


def _known(cell: int, rule: CellRule) -> int:
    """Return a cell; what has none has one more, where effects are NaN."""
    return rule.n_cells if cell == NO_CELL else int(cell)


def _distinct(rule: IntervalRule) -> tuple[Array, Indices]:
    """Return the starts between different cells, at least one, and the cells."""
    cells = np.where(rule.cells == NO_CELL, rule.n_cells, rule.cells).astype(np.int64)
    differs = np.flatnonzero(np.diff(cells))
    if not len(differs):
        return np.array([np.nan]), np.repeat(cells[:1], 2)  # nothing is beyond NaN
    return rule.starts[differs], cells[np.concatenate([[0], differs + 1])]


def _as_type(starts: Array, graph: _Graph) -> npt.NDArray[np.floating[Any]]:
    """Return the smallest numbers of the input type that are not below the starts."""
    if graph.input_type == np.float64:
        return starts
    with np.errstate(over="ignore"):
        single = starts.astype(np.float32)
        return np.where(single < starts, np.nextafter(single, np.float32(np.inf)), single)


def _look_up(
    graph: _Graph, name: str, lookup: Lookup, cells: list[str], rules: list[CellRule]
) -> str:
    """Add the operations that read a table in the cells of each row."""
    table, index = lookup.values, cells[0]
    for axis, position in enumerate(lookup.rules):
        rule = rules[position]
        if _has_gap(rule):
            padding = [(0, int(k == axis)) for k in range(table.ndim)]
            table = np.pad(table, padding, constant_values=np.nan)
        if axis > 0:
            so_far = graph.node("Mul", [index, graph.number(table.shape[axis])])
            index = graph.node("Add", [so_far, cells[axis]])
    flat = graph.constant(name, table.reshape(-1, table.shape[-1]))
    return graph.node("Gather", [flat, index])


def _has_gap(rule: CellRule) -> bool:
    """Whether some values have no cell."""
    other = rule.other if isinstance(rule, LabelRule) else rule.missing
    return NO_CELL in (rule.missing, other) or bool(np.any(rule.cells == NO_CELL))


def _write_output(graph: _Graph, d: Decomposition, margin: str, scale: Scale) -> None:
    link = d.link.name if scale == "response" else "identity"
    if link == "logit":
        factor = graph.constant("link_scale", np.array([d.link.scale]))
        graph.node("Sigmoid", [graph.node("Mul", [margin, factor])], scale)
    elif link == "softmax":
        graph.node("Softmax", [margin], scale, axis=1)
    else:
        graph.node({"log": "Exp"}.get(link, "Identity"), [margin], scale)
    graph.outputs.append(
        graph.onnx.helper.make_tensor_value_info(
            scale, graph.onnx.TensorProto.DOUBLE, ["rows", d.n_outputs]
        )
    )
