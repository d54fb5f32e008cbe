"""Read CatBoost models, through CatBoost's own JSON export.

CatBoost itself is needed only to export a trained model or to open a ``.cbm`` file.
"""

import math
import re
import reprlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from treepurify.errors import (
    InvalidInputError,
    MissingDependencyError,
    TreepurifyError,
    UnsupportedModelError,
)
from treepurify.links import Link, LinkName
from treepurify.models.catboost_features import (
    node_tests,
    read_features,
    read_split,
)
from treepurify.models.catboost_library import (
    cbm_as_json,
    export_json,
    file_margin,
    raw_margin,
)
from treepurify.models.catboost_statistics import CategoryStatistic
from treepurify.models.catboost_trees import nested_nodes, oblivious_nodes
from treepurify.models.ensemble import VECTOR_LEAF, TreeEnsemble
from treepurify.models.files import ModelFile
from treepurify.models.json_text import DAMAGE, read_json
from treepurify.models.parsed import ModelSource, plain_labels
from treepurify.typing import Array

# What `FAMILIES` asks of a family.
__all__ = ["file_margin", "parse", "parse_file", "raw_margin"]

# How CatBoost's own `predict` or `predict_proba` turns a raw value into a response.
_LINKS: dict[str, LinkName] = {
    **dict.fromkeys(
        ("Logloss", "CrossEntropy", "Focal", "MultiLogloss", "MultiCrossEntropy"), "logit"
    ),
    # Every class has a logistic function of its own; CatBoost does not divide by their sum.
    "MultiClassOneVsAll": "logit",
    "MultiClass": "softmax",
    "Poisson": "log",
    "Tweedie": "log",
    "RMSEWithUncertainty": "mean-variance",
}
_IDENTITY_LOSSES = frozenset(
    {"RMSE", "MAE", "Quantile", "MultiQuantile", "LogLinQuantile", "MAPE", "Lq", "Huber"}
    | {"Expectile", "LogCosh", "MultiRMSE", "MultiRMSEWithMissingValues"}
    | {"Cox", "SurvivalAft", "PairLogit", "PairLogitPairwise", "QueryRMSE", "QuerySoftMax"}
    | {"YetiRank", "YetiRankPairwise", "LambdaMart", "StochasticRank", "StochasticFilter"}
)
# What numbers, texts and lists in the wrong places raise.
# Up to here doubles hold every whole number.
_MOST_WHOLE = 2**53
_OLD_BIAS = (
    "The model was not compared with CatBoost: the file stores its bias as a single number, as "
    "older versions of CatBoost did; newer versions ignore it."
)
_HUGE_WHOLE = (
    "The model was not compared with CatBoost: its JSON contains whole numbers beyond 2^53, "
    "which CatBoost reads as other numbers."
)
_FRACTIONS = (
    "The model was not compared with CatBoost: its JSON contains fractional sums of targets, "
    "which CatBoost reads as zero."
)
_CLASS_LOSSES = frozenset({"MultiClass", "MultiClassOneVsAll"})


def parse(model: Any) -> TreeEnsemble:
    """Read a trained CatBoost model.

    Splits of categories are read exactly without the training data: the model keeps a hash of
    each label, and labels are hashed when rows are read. Until `read_model` has named
    them, such categories are shown as ``"#"`` and the hash. A statistic of one categorical column
    parts its labels; one of a combination is a derived column.

    Parameters
    ----------
    model : catboost.CatBoost
        A trained CatBoost, CatBoostRegressor, CatBoostClassifier or CatBoostRanker.

    Returns
    -------
    TreeEnsemble

    Raises
    ------
    InvalidInputError
        If the model is not trained.
    UnsupportedModelError
        If it uses texts or embeddings.
    """
    if not model.is_fitted():
        raise InvalidInputError(f"this {type(model).__name__} is not trained; call fit first")
    return parse_document(read_json(export_json(model)))


def parse_file(file: ModelFile) -> TreeEnsemble | None:
    """Parse a ``.json`` or ``.cbm`` file; return None for a file of another kind."""
    if file.data.startswith(b"CBM1"):
        return parse_cbm(file.path)
    keys = file.document.keys()
    is_model = "oblivious_trees" in keys or {"trees", "features_info"} <= keys
    return parse_document(file.document) if is_model else None


def parse_cbm(path: Path) -> TreeEnsemble:
    """Read a CatBoost model file in CatBoost's binary format.

    Parameters
    ----------
    path : Path
        The file; CatBoost must be installed to open it.

    Returns
    -------
    TreeEnsemble

    Raises
    ------
    MissingDependencyError
        If CatBoost is not installed.
    InvalidInputError
        If the file does not exist or CatBoost cannot read it.
    UnsupportedModelError
        See `parse`.
    """
    if not Path(path).is_file():
        raise InvalidInputError(f"there is no file {str(path)!r}")
    try:
        import catboost  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            "a .cbm file is read through CatBoost, which is not installed: "
            "pip install 'treepurify[catboost]'. A model saved with "
            "format='json' can be read without CatBoost."
        ) from error
    ensemble = parse_document(read_json(cbm_as_json(Path(path))))
    # What CatBoost misreads in JSON it reads well in its own format.
    return replace(ensemble, source=replace(ensemble.source, unasked=""))


def parse_document(document: dict[str, Any]) -> TreeEnsemble:
    """Read a model that CatBoost saved with ``format="json"``.

    Parameters
    ----------
    document : dict
        The parsed JSON.

    Returns
    -------
    TreeEnsemble

    Raises
    ------
    UnsupportedModelError
        If the document is damaged, of an unknown layout, or uses texts or embeddings.
    """
    try:
        ensemble = _ensemble(document)
        has_huge = _check_numbers(document)
    except TreepurifyError:
        raise
    except DAMAGE as error:
        raise UnsupportedModelError(
            f"this CatBoost JSON is damaged or of an unknown layout ({reprlib.repr(error)}); "
            "save the model again with save_model(path, format='json')"
        ) from error
    if has_huge:
        return replace(ensemble, source=replace(ensemble.source, unasked=_HUGE_WHOLE))
    return ensemble


def _check_numbers(document: dict[str, Any]) -> bool:
    """Refuse infinities and NaN; return whether there are whole numbers beyond 2^53.

    CatBoost skips what follows an infinity or NaN, even in fields that are not used. It writes
    a large border or value as a whole number, and reads that as another number.
    """
    has_huge = False
    waiting: list[Any] = [value for key, value in document.items() if key != "model_info"]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, float | int) and not isinstance(value, bool):
            if not math.isfinite(value):
                raise UnsupportedModelError(
                    f"the CatBoost JSON contains {reprlib.repr(value)}, which CatBoost never "
                    "writes; the file is damaged"
                )
            has_huge = has_huge or (isinstance(value, int) and abs(value) > _MOST_WHOLE)
    return has_huge


def _ensemble(document: dict[str, Any]) -> TreeEnsemble:
    if "oblivious_trees" not in document and "trees" not in document:
        raise UnsupportedModelError(
            "this JSON document is not a CatBoost model: it has neither 'oblivious_trees' nor "
            "'trees'"
        )
    table = read_features(document["features_info"], document.get("ctr_data") or {})
    scale, bias = _scale_and_bias(document)
    oblivious = "oblivious_trees" in document
    trees = document["oblivious_trees"] if oblivious else document["trees"]
    n_outputs = _count_outputs(trees, len(bias), oblivious)
    if len(bias) != n_outputs and np.any(bias != 0):
        raise UnsupportedModelError(
            f"the CatBoost JSON has {len(bias)} biases for {n_outputs} outputs; the file is damaged"
        )
    if oblivious:
        splits = [
            [read_split(table, split) for split in tree.get("splits") or ()] for tree in trees
        ]
        values = [tree["leaf_values"] for tree in trees]
        weights = [tree.get("leaf_weights") for tree in trees]
        nodes = oblivious_nodes(splits, values, n_outputs, weights)
    else:
        nodes = nested_nodes(trees, partial(read_split, table), n_outputs)
    tests = node_tests(nodes, table)
    loss, labels = _loss(document)
    link, notes = _link(loss)
    ensemble = TreeEnsemble(
        tree_ptr=nodes.tree_ptr,
        left=nodes.left,
        right=nodes.right,
        **tests._asdict(),
        value=nodes.value * scale,
        tree_output=np.full(len(trees), 0 if n_outputs == 1 else VECTOR_LEAF, dtype=np.int32),
        base=np.broadcast_to(bias, n_outputs).astype(np.float64),
        features=(*table.specs, *table.derived),
        output_names=_output_names(loss, tuple(map(str, labels)), n_outputs),
        link=link,
        source=ModelSource(
            "catboost",
            _version(document.get("model_info") or {}),
            "oblivious" if oblivious else "non-symmetric",
            notes,
            _unasked(document, table.statistics),
            _constraints(document, len(table.specs) + len(table.derived)),
            plain_labels(labels),
        ),
        has_feature_names=table.named,
        cover=None if np.any(np.isnan(nodes.cover)) else nodes.cover,
    )
    n_raw = len(table.specs)
    derived = [j for j in ensemble.used_features if j >= n_raw]
    return ensemble.of_features((*range(n_raw), *derived))


def _scale_and_bias(document: dict[str, Any]) -> tuple[float, Array]:
    scale, bias = document.get("scale_and_bias", (1.0, 0.0))
    numbers = np.atleast_1d(np.asarray(bias))
    are_numbers = np.asarray(scale).dtype.kind in "if" and numbers.dtype.kind in "if"
    if not are_numbers or np.ndim(scale) != 0 or numbers.ndim != 1:
        raise UnsupportedModelError("'scale_and_bias' of the CatBoost JSON are not numbers")
    return float(scale), numbers.astype(np.float64)


def _unasked(document: dict[str, Any], statistics: Sequence[CategoryStatistic]) -> str:
    """Say why CatBoost is not asked to predict with the document; empty where it is."""
    if _has_old_bias(document):
        return _OLD_BIAS
    return _FRACTIONS if any(statistic.has_fractions for statistic in statistics) else ""


def _has_old_bias(document: dict[str, Any]) -> bool:
    _, bias = document.get("scale_and_bias", (1.0, 0.0))
    return bool(np.ndim(bias) == 0 and bias != 0)


def _count_outputs(trees: Sequence[dict[str, Any]], n_biases: int, oblivious: bool) -> int:
    if not trees:
        return n_biases
    if oblivious:
        # A tree with no value for a leaf is refused with the others, as one of the wrong size.
        return max(len(trees[0]["leaf_values"]) >> len(trees[0].get("splits") or ()), 1)
    node = trees[0]
    while "split" in node:
        node = node["left"]
    return len(node["value"]) if isinstance(node["value"], list) else 1


def _loss(document: dict[str, Any]) -> tuple[str | None, Sequence[Any]]:
    """Return the name of the loss, None where the model does not say, and the class labels."""
    info = document.get("model_info") or {}
    parameters, classes = info.get("params") or {}, info.get("class_params") or {}
    # Files of older versions hold these as text.
    parameters, classes = (
        read_json(part) if isinstance(part, str) else part for part in (parameters, classes)
    )
    loss = (parameters.get("loss_function") or {}).get("type")
    labels = classes.get("class_names") or ()
    _check_classes(classes.get("class_to_label") or [], max(len(labels), 2), classes)
    return loss, labels


def _constraints(document: dict[str, Any], n_columns: int) -> tuple[int, ...]:
    """Return the monotone constraint of each column; none where the model does not say."""
    parameters = (document.get("model_info") or {}).get("params") or {}
    parameters = read_json(parameters) if isinstance(parameters, str) else parameters
    given = (parameters.get("tree_learner_options") or {}).get("monotone_constraints") or {}
    signs = {int(feature): int(sign) for feature, sign in given.items()}
    return tuple(signs.get(j, 0) for j in range(n_columns)) if signs else ()


def _check_classes(numbers: list[Any], n_names: int, classes: dict[str, Any]) -> None:
    """Refuse outputs of classes that do not exist: CatBoost crashes on them."""
    claimed = classes.get("classes_count", 0)
    known = range(max(n_names, claimed))
    if any(type(number) is not int or number not in known for number in numbers):
        raise UnsupportedModelError("'class_to_label' of the CatBoost JSON names unknown classes")


def _link(loss: str | None) -> tuple[Link, tuple[str, ...]]:
    if loss in _LINKS:
        return Link(_LINKS[loss]), ()
    if loss in _IDENTITY_LOSSES:
        return Link("identity"), ()
    what = "does not state its loss" if loss is None else f"has the loss {loss!r}"
    return Link("identity"), (f"the model {what}; the response is assumed to be the margin",)


def _output_names(loss: str | None, classes: tuple[str, ...], n_outputs: int) -> tuple[str, ...]:
    if n_outputs == 1:
        return (classes[1] if len(classes) == 2 else "margin",)
    if loss in _CLASS_LOSSES and len(classes) == n_outputs:
        return classes
    if loss == "RMSEWithUncertainty":
        return ("mean", "log standard deviation")
    return tuple(f"target{k}" for k in range(n_outputs))


def _version(info: dict[str, Any]) -> str:
    match = re.search(r"v(\d+\.\d+(?:\.\d+)*)", str(info.get("catboost_version_info", "")))
    return match.group(1) if match else "unknown"
