"""LightGBM: Booster, LGBMRegressor, LGBMClassifier, LGBMRanker and model files.

A model is read from its text form, which holds every number with 17 digits and so repeats
raw scores bit for bit. A random forest (``boosting="rf"``) predicts the mean of its
trees, and the margin is that mean, since the inverse link applies to it; LightGBM's own
``raw_score=True`` is the sum.
"""

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError, MemoryBudgetError, UnsupportedModelError
from treepurify.links import Link
from treepurify.models.ensemble import LEAF, NUMERIC_NODE, TreeEnsemble
from treepurify.models.files import ModelFile
from treepurify.models.lightgbm_features import (
    CATEGORICAL,
    MISSING_NAN,
    MISSING_NONE,
    category_members,
    feature_specs,
    has_generated_names,
    missing_types,
    monotone_constraints,
)
from treepurify.models.lightgbm_grammar import is_as_written
from treepurify.models.lightgbm_library import booster_of, load_file, text_of
from treepurify.models.lightgbm_library import raw_margin as library_margin
from treepurify.models.lightgbm_text import (
    ModelText,
    TreeFields,
    read_model_text,
    single_integer,
)
from treepurify.models.parsed import ModelSource
from treepurify.rows.columns import ZERO_THRESHOLD, FeatureSpec
from treepurify.typing import Array, Integers, Mask

# What `FAMILIES` asks of a family.
__all__ = ["load_file", "parse", "parse_file", "raw_margin"]

_DEFAULT_LEFT = 2
_UNASKED = (
    "The file differs from what LightGBM would write. LightGBM can crash on such files, so "
    "its predictions were not compared with those of the parsed model."
)
_KNOWN_DECISION_BITS = 15
# A model without a tree has hardly more outputs; a damaged number would be believed.
_MOST_CONSTANT_OUTPUTS = 1000
# They name no class of two that a reader would know.
_UNNAMED = (("0", "1"), ("False", "True"))
_MOST_CODES = 1 << 22
_MAX_CATEGORY_TABLE = 1 << 30
# What the tables of categories may take where bit sets in the file do not bear them out.
_SMALL_CATEGORY_TABLE = 1 << 28
_TABLE_OF_WORD = 256

_IDENTITY_OBJECTIVES = frozenset(
    [
        "regression",
        "regression_l1",
        "huber",
        "fair",
        "quantile",
        "mape",
        "lambdarank",
        "rank_xendcg",
    ]
)
_LOG_OBJECTIVES = frozenset(["poisson", "gamma", "tweedie"])
_LOGIT_OBJECTIVES = frozenset(["binary", "multiclassova", "cross_entropy"])


def parse(model: Any) -> TreeEnsemble:
    """Turn a trained LightGBM model into its canonical form.

    Parameters
    ----------
    model : lightgbm.Booster, LGBMRegressor, LGBMClassifier or LGBMRanker
        A trained model. As in the library's own ``predict``, trees after the best
        iteration of early stopping are left out.

    Returns
    -------
    TreeEnsemble
        ``margin(X)`` equals ``predict(X, raw_score=True)`` (for a random forest, divided by
        the number of iterations).

    Raises
    ------
    InvalidInputError
        If the model is not trained.
    UnsupportedModelError
        If the model cannot be decomposed exactly.

    Examples
    --------
    >>> import lightgbm, numpy as np
    >>> X = np.arange(100.0).reshape(-1, 1)
    >>> model = lightgbm.LGBMRegressor(n_estimators=2, verbose=-1).fit(X, X.ravel() > 50)
    >>> bool(np.all(parse(model).margin(X).ravel() == model.booster_.predict(X, raw_score=True)))
    True
    """
    text = read_model_text(text_of(booster_of(model)), needs_parameters=False)
    classes = getattr(model, "classes_", None)
    names = None if classes is None else tuple(str(label) for label in classes)
    ensemble = _ensemble(text, None if names in _UNNAMED else names)
    version = getattr(sys.modules.get("lightgbm"), "__version__", "unknown")  # not in the text
    return replace(ensemble, source=replace(ensemble.source, version=version))


def parse_file(file: ModelFile) -> TreeEnsemble | None:
    """Parse a text file; return None for a file of another kind."""
    # LightGBM writes "tree" on the first line, before "version=".
    is_text = (file.text or "").split(maxsplit=1)[:1] == ["tree"]
    return parse_text(file.text) if file.text and is_text else None


def parse_text(text: str) -> TreeEnsemble:
    """Turn the text of a LightGBM model file into its canonical form.

    Parameters
    ----------
    text : str
        What ``Booster.save_model`` writes and ``Booster.model_to_string`` returns.

    Returns
    -------
    TreeEnsemble

    Raises
    ------
    InvalidInputError
        If the text is cut short or damaged.
    UnsupportedModelError
        If the layout is unknown, or the model cannot be decomposed exactly.
    """
    read = _ensemble(read_model_text(text.replace("\r\n", "\n")), None)
    unasked = "" if is_as_written(text) else _UNASKED
    return replace(read, source=replace(read.source, unasked=unasked))


def raw_margin(model: Any, X: Any) -> Array:
    """Return LightGBM's own raw score; see `lightgbm_library.raw_margin`."""
    return library_margin(model, X, lambda rows: parse(model).columns(rows))


def _ensemble(text: ModelText, class_names: tuple[str, ...] | None) -> TreeEnsemble:
    trees = text.trees
    n_trees = len(trees.n_leaves)
    n_outputs = single_integer(text.header, "num_tree_per_iteration")
    if n_outputs < 1 or n_trees % n_outputs or n_outputs > max(n_trees, _MOST_CONSTANT_OUTPUTS):
        raise InvalidInputError(
            f"the LightGBM model text is damaged: {n_trees} trees for {n_outputs} outputs"
        )
    split_of_node = _split_of_node(trees)
    features = feature_specs(text, split_of_node)
    tree_ptr, inner, leaves = _layout(trees)
    left, right = _children(trees, tree_ptr)
    n_nodes = int(tree_ptr[-1])
    cut, missing_left, swapped = _cuts(trees)
    # Zeros are missing there, so no number is between both cuts.
    zero_is_missing = np.array([spec.zero_is_missing for spec in features])[trees.split_feature]
    cut[zero_is_missing & (cut == -ZERO_THRESHOLD)] = np.nextafter(ZERO_THRESHOLD, np.inf)
    left, right = np.where(swapped, right, left), np.where(swapped, left, right)
    category_ptr, category_left = _category_tables(trees, split_of_node, features)
    value = np.zeros((n_nodes, 1))
    n_iterations = n_trees // n_outputs if "average_output" in text.header else 1
    value[leaves, 0] = trees.leaf_value / max(n_iterations, 1)
    link, notes = _link(text, features)
    positive = "margin" if class_names is None else class_names[-1]
    if class_names is None or len(class_names) != n_outputs:
        class_names = tuple(str(k) for k in range(n_outputs))
    return TreeEnsemble(
        tree_ptr=tree_ptr,
        feature=_spread(n_nodes, inner, trees.split_feature, LEAF, np.int32),
        cut=_spread(n_nodes, inner, cut, np.nan, np.float64),
        left=_spread(n_nodes, inner, left, LEAF, np.int32),
        right=_spread(n_nodes, inner, right, LEAF, np.int32),
        missing_left=_spread(n_nodes, inner, missing_left, False, np.bool_),
        category_ptr=_spread(n_nodes, inner, category_ptr, NUMERIC_NODE, np.int64),
        category_left=category_left,
        value=value,
        tree_output=(np.arange(n_trees) % n_outputs).astype(np.int32),
        base=np.zeros(n_outputs),
        features=features,
        output_names=class_names if n_outputs > 1 else (positive,),
        link=link,
        source=ModelSource(
            "lightgbm",
            "unknown",
            text.parameters.get("boosting", "gbdt"),
            notes,
            constraints=monotone_constraints(text),
        ),
        has_feature_names=not has_generated_names(text.header["feature_names"].split()),
        cover=None
        if trees.leaf_count is None
        else _spread(n_nodes, leaves, trees.leaf_count, 0.0, np.float64),
    )


def _layout(
    trees: TreeFields,
) -> tuple[Integers, Integers, Integers]:
    """Return the first node of each tree, and the places of all inner nodes and leaves.

    The inner nodes of a tree come first, in LightGBM's order, then its leaves.
    """
    tree_ptr = np.concatenate([[0], np.cumsum(2 * trees.n_leaves - 1)])
    inner = _within_trees(trees.n_leaves - 1) + np.repeat(tree_ptr[:-1], trees.n_leaves - 1)
    leaves = _within_trees(trees.n_leaves) + np.repeat(
        tree_ptr[:-1] + trees.n_leaves - 1, trees.n_leaves
    )
    return tree_ptr, inner, leaves


def _within_trees(counts: Integers) -> Integers:
    """Return 0, 1, ..., counts[0] - 1, 0, 1, ..., counts[1] - 1, ..."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def _children(trees: TreeFields, tree_ptr: Integers) -> tuple[Integers, Integers]:
    """Return the children of each inner node in our numbering, each node having one parent."""
    n_inner = trees.n_leaves - 1
    first = np.repeat(tree_ptr[:-1], n_inner)
    own_inner = np.repeat(n_inner, n_inner)
    children = []
    for child in (trees.left_child, trees.right_child):
        if np.any(child >= own_inner) or np.any(~child > own_inner):
            raise InvalidInputError(
                "the LightGBM model text is damaged: a child lies outside its tree"
            )
        children.append(first + np.where(child < 0, own_inner + ~child, child))
    parents = np.bincount(np.concatenate(children), minlength=int(tree_ptr[-1]))
    parents[tree_ptr[:-1]] += 1
    if np.any(parents != 1):
        raise InvalidInputError(
            "the LightGBM model text is damaged: a node has no parent, or more than one"
        )
    return children[0], children[1]


def _cuts(
    trees: TreeFields,
) -> tuple[Array, Mask, Mask]:
    """Return cut, direction of missing values, and whether children swap, of each inner node.

    LightGBM goes left iff ``x <= threshold`` where every ``|x| <= ZERO_THRESHOLD`` is read as 0. A
    threshold of infinity parts present from missing values: ``x < inf`` would be wrong for
    x = inf, while with swapped children ``x < -inf`` is false for every number.
    """
    decision, missing = trees.decision_type, missing_types(trees)
    if np.any((decision < 0) | (decision > _KNOWN_DECISION_BITS) | (missing > MISSING_NAN)):
        raise UnsupportedModelError("unknown bits in decision_type of a LightGBM model")
    numeric, threshold = (decision & CATEGORICAL) == 0, trees.threshold
    if np.any(np.isnan(threshold[numeric])):
        raise InvalidInputError("the LightGBM model text is damaged: a threshold is NaN")
    swapped = numeric & (threshold == np.inf)
    with np.errstate(over="ignore"):
        cut = np.nextafter(threshold, np.inf)
    cut[(threshold >= 0.0) & (threshold <= ZERO_THRESHOLD)] = np.nextafter(ZERO_THRESHOLD, np.inf)
    cut[(threshold < 0.0) & (threshold >= -ZERO_THRESHOLD)] = -ZERO_THRESHOLD
    # Where the training data had no missing values, NaN is read as 0.
    missing_left = np.where(missing == MISSING_NONE, cut > 0.0, (decision & _DEFAULT_LEFT) > 0)
    cut[swapped] = -np.inf
    cut[~numeric] = np.nan
    return cut, (missing_left ^ swapped) & numeric, swapped


def _split_of_node(trees: TreeFields) -> Integers:
    """Return the categorical split, counted over all trees, of each categorical node."""
    categorical = (trees.decision_type & CATEGORICAL) > 0
    first = np.cumsum(trees.n_category_splits) - trees.n_category_splits
    n_inner = trees.n_leaves - 1
    number = trees.threshold[categorical]
    in_tree = np.repeat(trees.n_category_splits, n_inner)[categorical]
    known = (number >= 0) & (number < in_tree) & (number == np.trunc(number))
    if not np.all(known):
        raise InvalidInputError(
            "the LightGBM model text is damaged: a node names a categorical split that does not "
            "exist"
        )
    split = np.repeat(first, n_inner)[categorical] + number.astype(np.int64)
    if not np.array_equal(np.sort(split), np.arange(len(trees.word_count))):
        raise InvalidInputError(
            "the LightGBM model text is damaged: the nodes do not use each categorical split "
            "exactly once"
        )
    return split


def _category_tables(
    trees: TreeFields, split_of_node: Integers, features: tuple[FeatureSpec, ...]
) -> tuple[Integers, Mask]:
    """Return each inner node's offset, and the tables: members go left, all others right."""
    categorical = (trees.decision_type & CATEGORICAL) > 0
    n_codes = np.array([spec.n_codes for spec in features], dtype=np.int64)
    sizes = n_codes[trees.split_feature[categorical]] + 1
    total = int(sizes.sum())
    believed = min(_SMALL_CATEGORY_TABLE + _TABLE_OF_WORD * len(trees.words), _MAX_CATEGORY_TABLE)
    if total > believed or np.any(n_codes > _MOST_CODES):
        raise MemoryBudgetError(
            f"the tables of {len(sizes)} categorical splits need {total / 2**30:.1f} GiB, "
            f"because codes reach {int(n_codes.max())}. Train on codes 0, 1, 2, ... without gaps."
        )
    start = np.cumsum(sizes) - sizes
    start_of_split = np.empty(len(sizes), dtype=np.int64)
    start_of_split[split_of_node] = start
    split, code = category_members(trees)
    feature_of_split = np.empty(len(sizes), dtype=np.int64)
    feature_of_split[split_of_node] = trees.split_feature[categorical]
    for j, spec in enumerate(features):
        if spec.listed_codes is not None:
            own = feature_of_split[split] == j
            code[own] = np.searchsorted(spec.listed_codes, code[own])
    category_left = np.zeros(total, dtype=bool)
    category_left[start_of_split[split] + code] = True
    category_ptr = np.full(len(categorical), NUMERIC_NODE, dtype=np.int64)
    category_ptr[categorical] = start
    return category_ptr, category_left


def _spread(
    n_nodes: int, some: Integers, of_some: Any, of_others: Any, dtype: Any
) -> npt.NDArray[Any]:
    spread = np.full(n_nodes, of_others, dtype=dtype)
    spread[some] = of_some
    return spread


def _link(text: ModelText, features: tuple[FeatureSpec, ...]) -> tuple[Link, tuple[str, ...]]:
    """Return the link of the objective, and what the user should know about the reading."""
    notes = []
    if "average_output" in text.header:
        notes.append("random forest: the margin is the mean of the trees, raw_score is their sum")
    if any(spec.is_categorical and spec.categories is None for spec in features):
        notes.append("categorical features without labels: columns must contain the codes")
    name, *options = text.header.get("objective", "custom").split()
    settings = dict(option.split(":", 1) for option in options if ":" in option)
    scale = _sigmoid(settings.get("sigmoid", "1"))
    n_classes = text.header["num_class"]
    if scale is None or settings.get("num_class", n_classes) != n_classes:
        raise InvalidInputError(
            f"the LightGBM model text is damaged: objective={text.header['objective']!r} of a "
            f"model with {n_classes} outputs"
        )
    if name in _LOGIT_OBJECTIVES:
        # multiclassova as well: LightGBM does not divide its probabilities by their sum.
        link = Link("logit", scale)
    elif name in _LOG_OBJECTIVES:
        link = Link("log")
    elif name == "cross_entropy_lambda":
        link = Link("softplus")
    elif name == "multiclass":
        link = Link("softmax")
    elif name in _IDENTITY_OBJECTIVES:
        link = Link("sqrt") if "sqrt" in options else Link("identity")
    elif name == "custom":
        notes.append("objective 'custom': the response is the margin, as LightGBM predicts")
        link = Link("identity")
    else:
        notes.append(f"objective {name!r}: the function from the margin to the response is unknown")
        link = Link("unknown")
    return link, tuple(notes)


def _sigmoid(text: str) -> float | None:
    """Return the factor of the margin in a logistic link; None where it cannot be one."""
    try:
        scale = float(text)
    except ValueError:
        return None
    return scale if 0.0 < scale < np.inf else None
