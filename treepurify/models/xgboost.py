"""Parse XGBoost models: boosters, their scikit-learn wrappers and model documents."""

import json
import reprlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models.ensemble import VECTOR_LEAF, TreeEnsemble, without_missing_codes
from treepurify.models.files import ModelFile
from treepurify.models.limits import check_features, check_outputs
from treepurify.models.parsed import ModelSource
from treepurify.models.ubjson import ArrayTable, join_arrays, read_ubjson
from treepurify.models.xgboost_nodes import (
    TREE_KEYS,
    TREE_NUMBERS,
    FeatureCategories,
    XgboostNodes,
    array,
    entry,
    integer,
    read_categories,
    read_nodes,
    singles,
    texts,
)
from treepurify.models.xgboost_objectives import (
    Objective,
    base_margin,
    depends_on_version,
    find_objective,
)
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.tables import is_table
from treepurify.typing import Array

# What may follow the brace with which UBJSON begins.
_UBJSON_AFTER_BRACE = b"iUIlL#$"
# From this version on, base scores are written in brackets, one number for each output.
_LISTED_SINCE = (3, 1)


@dataclass(frozen=True, eq=False)
class _Layout:
    """Where the parts of a booster stand, over the layouts of XGBoost 1.0 to 3.4."""

    kind: str
    model: dict[str, Any]
    weight_drop: Any


def raw_margin(model: Any, X: Any) -> Array:
    """Return XGBoost's own margin, shape (n_rows, n_outputs).

    As the model itself predicts: with the iteration that early stopping found best, for its
    scikit-learn wrappers. The columns of a table may be in any order.
    """
    wrapped = hasattr(model, "get_booster")
    booster = model.get_booster() if wrapped else model
    best_iteration = booster.attr("best_iteration") if wrapped else None
    # A range that ends at 0 stands for all rounds.
    rounds = (0, 0 if best_iteration is None else int(best_iteration) + 1)
    missing = getattr(model, "missing", None)
    missing = np.nan if missing is None else missing
    rows = _library_rows(X, booster.feature_names, lambda rows: parse(model).columns(rows))
    # In-place prediction needs no DMatrix, but it adds rounding errors to DART.
    if _is_dart(booster):
        margin = _margin_of_matrix(booster, rows, rounds, missing)
    else:
        margin = booster.inplace_predict(
            rows, iteration_range=rounds, predict_type="margin", missing=missing
        )
    margin = np.asarray(margin, dtype=np.float64)
    return margin[:, None] if margin.ndim == 1 else margin


def parse(model: Any) -> TreeEnsemble:
    """Turn a trained booster, or a scikit-learn wrapper of one, into its canonical form.

    Parameters
    ----------
    model : xgboost.Booster or xgboost.XGBModel
        A wrapper stands for the trees its ``predict`` uses, that is, up to the best iteration
        after early stopping, and reads its ``missing`` value as missing; a booster uses all
        its trees.

    Returns
    -------
    TreeEnsemble

    Raises
    ------
    InvalidInputError
        If the model is not trained.
    UnsupportedModelError
        If the model is not a tree ensemble of a known layout and objective.
    """
    if type(model).__module__.startswith("xgboost.spark"):
        raise UnsupportedModelError(
            f"{type(model).__name__} cannot be decomposed exactly: it is a model of Spark. Pass "
            "the booster inside, model.get_booster()."
        )
    wrapped = hasattr(model, "get_booster")
    try:
        booster = model.get_booster() if wrapped else model
        data = booster.save_raw("ubj")
    except ValueError as error:
        # XGBoost's own error and scikit-learn's NotFittedError are both ValueErrors.
        raise InvalidInputError(
            f"the {type(model).__name__} cannot be read; is it trained? XGBoost says: "
            f"{str(error).splitlines()[0]}"
        ) from error
    document = read_ubjson(data, tables={"trees": TREE_KEYS}, numbers=TREE_NUMBERS)
    ensemble = parse_document(document, best_iteration_only=wrapped)
    constraints = _live_constraints(booster, ensemble.n_features)
    ensemble = replace(ensemble, source=replace(ensemble.source, constraints=constraints))
    return _with_wrapper(ensemble, model) if wrapped else ensemble


def parse_file(file: ModelFile) -> TreeEnsemble | None:
    """Parse a ``.json`` or ``.ubj`` file; return None for a file of another kind."""
    if file.data[:1] == b"{" and file.data[1:2] in [bytes([c]) for c in _UBJSON_AFTER_BRACE]:
        return parse_bytes(file.data)
    return parse_document(file.document) if "learner" in file.document else None


def parse_bytes(data: bytes) -> TreeEnsemble:
    """Parse the content of a ``.ubj`` file; see `parse_document`."""
    return parse_document(read_ubjson(data, tables={"trees": TREE_KEYS}, numbers=TREE_NUMBERS))


def parse_document(document: dict[str, Any], *, best_iteration_only: bool = False) -> TreeEnsemble:
    """Parse a decoded JSON or UBJSON model.

    Parameters
    ----------
    document : dict
        What ``json.load`` returns for a model that XGBoost saved.
    best_iteration_only : bool
        Whether to drop the trees after the best iteration of early stopping, as the
        scikit-learn wrappers do when they predict.

    Returns
    -------
    TreeEnsemble

    Raises
    ------
    InvalidInputError
        If the document is damaged.
    UnsupportedModelError
        If its layout, booster or objective is not known.

    Examples
    --------
    >>> import json
    >>> import numpy as np
    >>> import xgboost
    >>> rows = xgboost.DMatrix(np.array([[0.0], [1.0]]), [1.0, 3.0])
    >>> booster = xgboost.train({"max_depth": 1}, rows, num_boost_round=2)
    >>> parse_document(json.loads(booster.save_raw("json"))).n_trees
    2
    """
    learner = entry(document, "learner", dict)
    parameters = entry(learner, "learner_model_param", dict)
    n_outputs = _count_outputs(parameters)
    objective = find_objective(entry(entry(learner, "objective", dict), "name", str), n_outputs)
    layout = _layout(entry(learner, "gradient_booster", dict))
    types = texts(learner, "feature_types")
    names = texts(learner, "feature_names")
    n_features = integer(parameters, "num_feature")
    if any(len(listed) not in (0, n_features) for listed in (types, names)):
        raise InvalidInputError(
            f"the model has {n_features} features, {len(names)} names and {len(types)} types; it "
            "is damaged or was edited"
        )
    check_features(n_features, max(len(types), len(names)))
    categories = read_categories(layout.model, n_features)
    table = _tree_table(layout.model)
    check_outputs(n_outputs, table.n_objects)
    _check_n_trees(layout.model, table.n_objects)
    nodes = read_nodes(
        table,
        n_outputs,
        [kind == "c" for kind in types] or [False] * n_features,
        [category.n_codes for category in categories],
    )
    n_used, note = _count_used_trees(
        learner, layout.model, nodes, n_outputs, best_iteration_only=best_iteration_only
    )
    # Several outputs of a binary objective are targets.
    is_binary = objective.name.startswith("binary:") and n_outputs == 1
    is_of_classes = is_binary or objective.link.name == "softmax"
    notes = (objective.note, note, *(category.note for category in categories))
    return _ensemble(
        _first_trees(nodes, n_used),
        _tree_output(layout.model, nodes, n_outputs)[:n_used],
        _tree_weight(layout.weight_drop, len(nodes.tree_ptr) - 1)[:n_used],
        _base(parameters, objective, n_outputs, len(nodes.tree_ptr) - 1, _version(document)),
        _features(names, categories, nodes),
        objective,
        ModelSource(
            "xgboost",
            ".".join(map(str, _version(document))) or "unknown",
            layout.kind,
            tuple(text for text in notes if text),
            class_labels=tuple(range(max(n_outputs, 2))) if is_of_classes else (),
        ),
        has_feature_names=bool(names),
    )


def _version(document: dict[str, Any]) -> tuple[int, ...]:
    return tuple(array(document, "version", "iu").tolist())


def _layout(booster: dict[str, Any]) -> _Layout:
    kind = entry(booster, "name", str)
    if kind == "gblinear":
        raise UnsupportedModelError(
            "gblinear is a linear model, not a tree ensemble; its effects are its coefficients "
            "times the inputs"
        )
    if kind not in {"gbtree", "dart"}:
        raise UnsupportedModelError(
            f"the XGBoost booster {kind!r} is not supported; use gbtree or dart"
        )
    # DART nests the trees one level deeper up to 3.2. Version 3.4 names it gbtree and puts the
    # weights next to the trees.
    model = entry(booster.get("gbtree", booster), "model", dict)
    weight_drop = booster.get("weight_drop", model.get("weight_drop"))
    if kind == "dart" and weight_drop is None:
        raise InvalidInputError("not a complete XGBoost model: 'weight_drop' is missing")
    return _Layout(kind if weight_drop is None else "dart", model, weight_drop)


def _count_outputs(parameters: dict[str, Any]) -> int:
    n_classes = max(integer(parameters, "num_class", 0), 1)
    n_targets = max(integer(parameters, "num_target", 1), 1)
    if n_classes > 1 and n_targets > 1:
        raise UnsupportedModelError(
            "XGBoost models with several classes and several targets are not supported"
        )
    return n_classes * n_targets


def _tree_table(model: dict[str, Any]) -> ArrayTable:
    trees = model.get("trees")
    if isinstance(trees, ArrayTable):
        return trees
    if isinstance(trees, np.ndarray) and trees.size == 0:
        trees = []
    if not isinstance(trees, list):
        raise InvalidInputError("not a complete XGBoost model: 'trees' is not a list")
    return join_arrays(trees, TREE_KEYS, TREE_NUMBERS)


def _check_n_trees(model: dict[str, Any], n_trees: int) -> None:
    parameters = model.get("gbtree_model_param", {})
    if not isinstance(parameters, dict) or integer(parameters, "num_trees", n_trees) != n_trees:
        raise InvalidInputError(
            f"the model contains {n_trees} trees but 'num_trees' differs; it is damaged"
        )
    rounds = array(model, "iteration_indptr", "iu")
    # XGBoost takes the trees between two entries, wherever these point.
    if len(rounds) and not (
        rounds[0] == 0 and rounds[-1] == n_trees and np.all(rounds[1:] >= rounds[:-1])
    ):
        raise InvalidInputError(
            f"'iteration_indptr' does not go from 0 to the {n_trees} trees of the model; the model "
            "is damaged"
        )


def _features(
    names: list[str], categories: list[FeatureCategories], nodes: XgboostNodes
) -> tuple[FeatureSpec, ...]:
    return tuple(
        FeatureSpec(
            name=names[j] if names else f"x{j}",
            kind="categorical" if n_codes >= 0 else "numeric",
            categories=categories[j].labels if n_codes >= 0 else None,
            n_codes=max(n_codes, 0),
            absent_is_missing=True,
            stored_labels=categories[j].stored if n_codes >= 0 else (),
        )
        for j, n_codes in enumerate(nodes.n_codes.tolist())
    )


def _base(
    parameters: dict[str, Any],
    objective: Objective,
    n_outputs: int,
    n_trees: int,
    version: tuple[int, ...],
) -> npt.NDArray[np.float32]:
    stored = parameters.get("base_score")
    is_list = str(stored).startswith("[")
    if version and is_list != (tuple(version) >= _LISTED_SINCE):
        raise InvalidInputError(
            f"the base score {reprlib.repr(stored)} does not have the form that XGBoost "
            f"{'.'.join(map(str, version))} writes; the model is damaged"
        )
    # From 3.1 on (one number per output), a base score that no round has estimated yet is
    # used as a margin as it is.
    estimated_later = is_list and parameters.get("boost_from_average") == "1"
    if n_trees == 0 and estimated_later:
        objective = replace(objective, base_scale="identity")
    return base_margin(stored, objective, n_outputs, version)


def _count_used_trees(
    learner: dict[str, Any],
    model: dict[str, Any],
    nodes: XgboostNodes,
    n_outputs: int,
    *,
    best_iteration_only: bool,
) -> tuple[int, str]:
    """Number of trees that predictions use, and what to tell the user about it."""
    n_trees = len(nodes.tree_ptr) - 1
    attributes = learner.get("attributes") or {}
    # Version 1.7 writes -1 where there are no rounds.
    if not isinstance(attributes, dict) or attributes.get("best_iteration", "-1") == "-1":
        return n_trees, ""
    n_rounds = integer(attributes, "best_iteration") + 1
    indptr = array(model, "iteration_indptr", "iu")
    if len(indptr):
        n_best = int(indptr[min(n_rounds, len(indptr) - 1)])
    else:
        parameters = entry(model, "gbtree_model_param", dict)
        a_round = max(integer(parameters, "num_parallel_tree", 1), 1)
        n_best = n_rounds * a_round * (1 if nodes.has_vector_leaves else n_outputs)
    n_best = min(max(n_best, 0), n_trees)
    if n_best == n_trees:
        return n_trees, ""
    if best_iteration_only:
        return n_best, f"early stopping: the first {n_best} of {n_trees} trees are used"
    return n_trees, (
        f"all {n_trees} trees are used, as by Booster.predict; early stopping chose the first "
        f"{n_best}, which the scikit-learn wrappers use"
    )


def _tree_output(
    model: dict[str, Any], nodes: XgboostNodes, n_outputs: int
) -> npt.NDArray[np.int32]:
    n_trees = len(nodes.tree_ptr) - 1
    if nodes.has_vector_leaves:
        return np.full(n_trees, VECTOR_LEAF, dtype=np.int32)
    output = array(model, "tree_info", "iu")
    if len(output) != n_trees or np.any((output < 0) | (output >= n_outputs)):
        raise InvalidInputError("'tree_info' does not match the trees; the model is damaged")
    return output.astype(np.int32)


def _tree_weight(weight_drop: Any, n_trees: int) -> npt.NDArray[np.float32]:
    weight = np.ones(n_trees, dtype=np.float32)
    if weight_drop is not None:
        stored = array({"weight_drop": weight_drop}, "weight_drop", "iuf")
        if len(stored) > n_trees:
            raise InvalidInputError("'weight_drop' does not match the trees; the model is damaged")
        # Trees added after the last one that was dropped may go without an entry.
        weight[: len(stored)] = singles(stored)
    return weight


def _first_trees(nodes: XgboostNodes, n_trees: int) -> XgboostNodes:
    if n_trees == len(nodes.tree_ptr) - 1:
        return nodes
    n_nodes = int(nodes.tree_ptr[n_trees])
    return replace(
        nodes,
        tree_ptr=nodes.tree_ptr[: n_trees + 1],
        feature=nodes.feature[:n_nodes],
        cut=nodes.cut[:n_nodes],
        left=nodes.left[:n_nodes],
        right=nodes.right[:n_nodes],
        missing_left=nodes.missing_left[:n_nodes],
        category_ptr=nodes.category_ptr[:n_nodes],
        value=nodes.value[:n_nodes],
        cover=None if nodes.cover is None else nodes.cover[:n_nodes],
    )


def _ensemble(
    nodes: XgboostNodes,
    tree_output: npt.NDArray[np.int32],
    tree_weight: npt.NDArray[np.float32],
    base: npt.NDArray[np.float32],
    features: tuple[FeatureSpec, ...],
    objective: Objective,
    source: ModelSource,
    *,
    has_feature_names: bool,
) -> TreeEnsemble:
    # XGBoost multiplies in single precision before it adds a leaf up.
    weight = np.repeat(tree_weight, np.diff(nodes.tree_ptr))
    value = (nodes.value * weight[:, None]).astype(np.float64)
    n_outputs = len(base)
    return TreeEnsemble(
        tree_ptr=nodes.tree_ptr,
        feature=nodes.feature,
        cut=nodes.cut,
        left=nodes.left,
        right=nodes.right,
        missing_left=nodes.missing_left,
        category_ptr=nodes.category_ptr,
        category_left=nodes.category_left,
        value=value,
        tree_output=tree_output,
        base=base.astype(np.float64),
        features=features,
        output_names=("margin",) if n_outputs == 1 else tuple(map(str, range(n_outputs))),
        link=objective.link,
        source=source,
        accumulation="float32",
        has_feature_names=has_feature_names,
        cover=nodes.cover,
    )


def _with_wrapper(ensemble: TreeEnsemble, model: Any) -> TreeEnsemble:
    """Add what only the scikit-learn wrapper knows: class labels and the missing value."""
    missing = getattr(model, "missing", None)
    features = ensemble.features
    if missing is not None and not np.isnan(missing):
        features = tuple(replace(spec, missing_value=float(missing)) for spec in features)
    names = ensemble.output_names
    if ensemble.link.name == "softmax":
        labels = getattr(model, "classes_", None)
        if labels is not None and len(labels) == ensemble.n_outputs:
            names = tuple(str(label) for label in labels)
    kind = f"{type(model).__name__}, {ensemble.source.kind}"
    source = replace(ensemble.source, kind=kind)
    read = replace(ensemble, features=features, output_names=names, source=source)
    return without_missing_codes(read)


def _live_constraints(booster: Any, n_features: int) -> tuple[int, ...]:
    """Return the monotone constraint of each feature, which only a live booster knows.

    Parameters
    ----------
    booster : xgboost.Booster
        A trained booster. One that was loaded from a file has forgotten its constraints.
    n_features : int
        Number of features, since the list of XGBoost may be shorter.

    Returns
    -------
    tuple of int
        1, -1 or 0 for each feature; empty without constraints.
    """
    trainer = json.loads(booster.save_config()).get("learner", {}).get("gradient_booster", {})
    # DART nests it one level deeper up to 3.2.
    trainer = trainer.get("gbtree", trainer)
    text = trainer.get("tree_train_param", {}).get("monotone_constraints", "()")
    signs = [int(sign) for sign in text.strip("()").split(",") if sign.strip()]
    return (*signs, *[0] * (n_features - len(signs))) if signs else ()


def load_file(path: Path) -> Any:
    """Load a model file with XGBoost, whatever its extension.

    Parameters
    ----------
    path : Path
        A ``.json`` or ``.ubj`` model.

    Returns
    -------
    xgboost.Booster

    Raises
    ------
    ImportError
        If XGBoost is not installed.
    UnsupportedModelError
        If the margin depends on the version of XGBoost, and so says nothing about the file.
    """
    import xgboost

    booster = xgboost.Booster()
    with xgboost.config_context(verbosity=0):
        booster.load_model(bytearray(path.read_bytes()))
    learner = json.loads(booster.save_config())["learner"]
    objective = find_objective(learner["objective"]["name"])
    if depends_on_version(learner["learner_model_param"]["base_score"], objective):
        raise UnsupportedModelError(
            f"XGBoost {xgboost.__version__} may read the base score differently from the version "
            "that wrote the file"
        )
    return booster


def _library_rows(X: Any, names: list[str] | None, read: Callable[[Any], Columns]) -> Any:
    """Return rows in a form that XGBoost reads the way the parsed model does."""
    # Of a sparse matrix, absent entries are missing to XGBoost.
    if hasattr(X, "toarray"):
        return X
    if hasattr(X, "iloc") and all(map(_is_read_alike, X.dtypes)):
        columns = list(X.columns)
        return X[names] if names is not None and set(columns) == set(names) else X
    if not is_table(X) and (array := np.asarray(X)).dtype.kind in "biuf":
        # XGBoost takes numbers of the other byte order for those that their bytes are in its own.
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    # XGBoost refuses text, and other tables it reads by rules of its own.
    return read(X).matrix()


def _is_read_alike(dtype: Any) -> bool:
    return hasattr(dtype, "categories") or getattr(dtype, "kind", "O") in "biuf"


def _is_dart(booster: Any) -> bool:
    configuration = json.loads(booster.save_config())
    return bool(configuration["learner"]["gradient_booster"]["name"] == "dart")


def _margin_of_matrix(booster: Any, rows: Any, rounds: tuple[int, int], missing: float) -> Any:
    import xgboost

    is_array = isinstance(rows, np.ndarray)
    if is_array and rows.dtype.kind == "f" and not np.isinf(missing):
        # A DMatrix refuses infinities; the largest numbers take the same branches.
        largest = np.finfo(np.float32).max
        rows = np.clip(rows, -largest, largest)
    matrix = xgboost.DMatrix(
        rows,
        missing=missing,
        feature_names=booster.feature_names if is_array else None,
        feature_types=booster.feature_types if is_array else None,
        enable_categorical=True,
    )
    return booster.predict(matrix, output_margin=True, iteration_range=rounds)
