"""Read the text of a LightGBM model file into flat arrays, checking that nothing is missing.

LightGBM 2.0 and 2.1 wrote no line ``end of trees``, and before 2.0.12 neither a version nor the
sizes of the trees. The list of feature importances, which follows the last tree, ends these texts.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.typing import Array, Integers

# LightGBM reads these three layouts alike; the version says how bins were made in training.
KNOWN_VERSIONS = ("v2", "v3", "v4")
_OLD_VERSIONS = (None, "v2")
END_OF_TREES = "\nend of trees"
END_OF_OLD_TREES = "\n\nfeature importances:\n"
_OLD_TAIL = re.compile(r"(?:.+=\d+\n)*(?:\npandas_categorical:.*\n?)?")
_START_OF_TREE = "\nTree="
# Every field in the order in which LightGBM writes it.
_HEADER_FIELDS = (
    "version",
    "num_class",
    "num_tree_per_iteration",
    "label_index",
    "max_feature_idx",
    "objective",
    "boost_from_average",
    "average_output",
    "feature_names",
    "monotone_constraints",
    "feature_infos",
    "tree_sizes",
)
_FLAGS = ("boost_from_average", "average_output")
_TREE_FIELDS = (
    "num_leaves",
    "num_cat",
    "split_feature",
    "split_gain",
    "threshold",
    "decision_type",
    "left_child",
    "right_child",
    "leaf_parent",
    "leaf_value",
    "leaf_weight",
    "leaf_count",
    "internal_value",
    "internal_weight",
    "internal_count",
    "cat_boundaries",
    "cat_threshold",
    "is_linear",
    "shrinkage",
)
# What is not needed here, but LightGBM reads as many of as there are inner nodes or leaves.
_OF_INNER_NODES = ("split_gain", "internal_value", "internal_weight", "internal_count")
_OF_LEAVES = ("leaf_parent", "leaf_weight", "leaf_count")
_IntArray = Integers
_FloatArray = Array
_Block = dict[str, str]


@dataclass(frozen=True, eq=False)
class TreeFields:
    """The fields of all trees, each concatenated in tree order.

    Parameters
    ----------
    n_leaves, n_category_splits : ndarray of int64, shape (n_trees,)
        Leaves and categorical splits of each tree.
    split_feature, decision_type, left_child, right_child : ndarray of int64
        One entry per inner node; a child ``c < 0`` is leaf ``~c`` of the same tree.
    threshold : ndarray of float64
        One entry per inner node: the threshold, or the number of the categorical split.
    leaf_value : ndarray of float64
        One entry per leaf.
    leaf_count : ndarray of float64, optional
        Number of training rows in each leaf, where every tree has them.
    word_start, word_count : ndarray of int64
        Where the bit set of each categorical split lies in `words`.
    words : ndarray of uint32
        Bit sets of the categories that go left.
    """

    n_leaves: _IntArray
    n_category_splits: _IntArray
    split_feature: _IntArray
    decision_type: _IntArray
    left_child: _IntArray
    right_child: _IntArray
    threshold: _FloatArray
    leaf_value: _FloatArray
    leaf_count: _FloatArray | None
    word_start: _IntArray
    word_count: _IntArray
    words: npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class ModelText:
    """A LightGBM model file, read and checked for completeness.

    Parameters
    ----------
    header : dict of str to str
        Lines before the first tree; lines without a value map to ``""``.
    trees : TreeFields
        The trees.
    parameters : dict of str to str
        Training parameters; empty where the file has none.
    category_labels : list of list
        Labels of the columns of pandas dtype ``category`` at training, in column order.
    """

    header: dict[str, str]
    trees: TreeFields
    parameters: dict[str, str]
    category_labels: list[list[Any]]


def read_model_text(text: str, *, needs_parameters: bool = True) -> ModelText:
    """Read the text that ``Booster.save_model`` writes.

    Parameters
    ----------
    text : str
        The whole text, its lines ended by a line feed alone.
    needs_parameters : bool
        Whether a text without a section of training parameters counts as cut short.

    Returns
    -------
    ModelText

    Raises
    ------
    InvalidInputError
        If the text is cut short or damaged.
    UnsupportedModelError
        If the layout is unknown, or leaves hold linear models.
    """
    if not text.startswith("tree\n"):
        raise InvalidInputError("not a LightGBM model file: the first line is not 'tree'")
    head, tail = _trees_and_tail(text)
    blocks = head.split(_START_OF_TREE)
    header = _header(blocks[0])
    trees = _tree_fields(_checked_blocks(header, blocks[1:]))
    # LightGBM 2.1 and older wrote no parameters.
    needs_parameters = needs_parameters and header.get("version", "v2") != "v2"
    parameters, tail = _parameters(tail, needs_parameters)
    return ModelText(header, trees, parameters, _category_labels(tail))


def _trees_and_tail(text: str) -> tuple[str, str]:
    """Return the text up to the end of the last tree, and the text after it."""
    head, end, tail = text.partition(END_OF_TREES)
    version = _version(head)
    if end:
        if version is None:
            raise _damaged("its header has no version")
        return head, tail
    head, end, tail = text.partition(END_OF_OLD_TREES)
    if not end or version not in _OLD_VERSIONS:
        raise _damaged("the line 'end of trees' is missing, so the file is incomplete")
    if _OLD_TAIL.fullmatch(tail) is None:
        raise _damaged("its list of feature importances is cut short")
    if version is None and _START_OF_TREE in head and "\nnum_cat=" not in head:
        raise UnsupportedModelError(
            "this text was written by a LightGBM before 2.0.4, which stored the tests of a tree "
            "in another form, and no later LightGBM reads it. Train the model again."
        )
    return head, tail


def _version(head: str) -> str | None:
    lines = head.partition(_START_OF_TREE)[0].split("\n")
    return next((line[8:] for line in lines if line.startswith("version=")), None)


def _damaged(what: str) -> InvalidInputError:
    return InvalidInputError(f"the LightGBM model text is damaged: {what}. Save the model again.")


def _header(block: str) -> dict[str, str]:
    lines = [line for line in block.split("\n")[1:] if line]
    version = _version(block)
    if version is not None and version not in KNOWN_VERSIONS:
        raise UnsupportedModelError(
            f"version {version!r} of LightGBM's model format is not supported; the supported ones "
            f"are {', '.join(KNOWN_VERSIONS)}"
        )
    header = _fields(lines, _HEADER_FIELDS, "its header")
    n_classes, n_outputs, _ = (
        single_integer(header, key)
        for key in ("num_class", "num_tree_per_iteration", "label_index")
    )
    if n_classes != n_outputs:
        # LightGBM reserves one number per class, and writes one per tree.
        raise _damaged(f"its header has {n_classes} classes, but {n_outputs} trees per iteration")
    return header


def _fields(lines: Sequence[str], known: Sequence[str], where: str) -> _Block:
    """Return the fields of lines ``key=value``, each there once and in LightGBM's order."""
    fields: _Block = {}
    place = -1
    for line in lines:
        key, sign, value = line.partition("=")
        if bool(sign) == (key in _FLAGS):
            raise _damaged(f"{where} has the unexpected line {line[:40]!r}")
        if key not in known:
            raise _damaged(f"{where} has a field {key[:40]!r}, which LightGBM does not write")
        if key in fields:
            raise _damaged(f"{where} has {key} twice")
        if known.index(key) < place:
            raise _damaged(f"{where} has {key} out of order")
        place = known.index(key)
        fields[key] = value
    return fields


def single_integer(header: dict[str, str], key: str) -> int:
    """Return a field of the header that is one whole number."""
    numbers = integers([header.get(key, "")], None, key)
    if len(numbers) != 1:
        raise _damaged(f"its header has no {key}")
    return int(numbers[0])


def _checked_blocks(header: dict[str, str], texts: Sequence[str]) -> list[_Block]:
    """Return the fields of each tree, having checked that every tree is there in full."""
    if "tree_sizes" in header:
        # A size counts "Tree=" and the line break that splitting has taken away.
        expected = integers([header["tree_sizes"]], None, "tree_sizes").tolist()
        sizes = [len(block) + len(_START_OF_TREE) for block in texts]
        if len(sizes) != len(expected):
            raise _damaged(f"its header lists {len(expected)} trees, but there are {len(sizes)}")
        for tree, (size, wanted) in enumerate(zip(sizes, expected, strict=True)):
            if size != wanted:
                raise _damaged(f"tree {tree} should have {wanted} bytes, but has {size}")
    blocks = []
    for tree, block in enumerate(texts):
        number, *lines = block.split("\n")
        if number != str(tree):
            raise _damaged(f"expected tree {tree}, found tree {number[:20]!r}")
        if "is_linear=1" in lines:
            raise UnsupportedModelError(
                "linear trees, which have a linear model instead of one value in each leaf, are "
                "not supported; train with linear_tree=False"
            )
        fields = _fields([line for line in lines if line], _TREE_FIELDS, f"tree {tree}")
        if fields.get("is_linear", "0") != "0":
            raise _damaged(f"tree {tree} has is_linear={fields['is_linear'][:20]}, expected 0")
        blocks.append(fields)
    return blocks


def _tree_fields(blocks: list[_Block]) -> TreeFields:
    one_a_tree = np.ones(len(blocks), dtype=np.int64)
    n_leaves = _int_field(blocks, "num_leaves", one_a_tree)
    n_category_splits = _int_field(blocks, "num_cat", one_a_tree)
    if np.any(n_leaves < 1) or np.any(n_category_splits < 0):
        raise _damaged("a tree has no leaves or a negative number of categorical splits")
    n_inner = n_leaves - 1
    for keys, counts in ((_OF_INNER_NODES, n_inner), (_OF_LEAVES, n_leaves)):
        for key in keys:
            _check_statistics(blocks, key, counts, n_leaves)
    # Trees without categorical splits leave the two lines out.
    with_sets = [
        block for block, n in zip(blocks, n_category_splits.tolist(), strict=True) if n > 0
    ]
    n_bounds = n_category_splits[n_category_splits > 0] + 1
    bounds = _int_field(with_sets, "cat_boundaries", n_bounds)
    first = np.cumsum(n_bounds) - n_bounds
    last = first + n_bounds - 1
    between = np.ones(max(len(bounds) - 1, 0), dtype=bool)
    between[last[:-1]] = False
    word_count = np.diff(bounds)[between]
    if np.any(bounds[first] != 0) or np.any(word_count < 0):
        raise _damaged("cat_boundaries must start at 0 and increase")
    words = _int_field(with_sets, "cat_threshold", bounds[last])
    if np.any(words < 0) or np.any(words > np.iinfo(np.uint32).max):
        raise _damaged("cat_threshold contains a number that is not a 32-bit set")
    return TreeFields(
        n_leaves=n_leaves,
        n_category_splits=n_category_splits,
        split_feature=_int_field(blocks, "split_feature", n_inner),
        decision_type=_int_field(blocks, "decision_type", n_inner),
        left_child=_int_field(blocks, "left_child", n_inner),
        right_child=_int_field(blocks, "right_child", n_inner),
        threshold=_float_field(blocks, "threshold", n_inner),
        leaf_value=_float_field(blocks, "leaf_value", n_leaves),
        leaf_count=_leaf_counts(blocks, n_leaves),
        word_start=np.cumsum(word_count) - word_count,
        word_count=word_count,
        words=words.astype(np.uint32),
    )


def _leaf_counts(blocks: list[_Block], n_leaves: _IntArray) -> _FloatArray | None:
    """Return the training rows in each leaf; a tree of one leaf may leave its own out."""
    if not all("leaf_count" in block for block in blocks):
        return None
    texts = [
        block["leaf_count"] or ("1" if leaves == 1 else "")
        for block, leaves in zip(blocks, n_leaves.tolist(), strict=True)
    ]
    return _numbers(texts, n_leaves, "leaf_count", _parse_floats)


def _check_statistics(
    blocks: list[_Block], key: str, counts: _IntArray, n_leaves: _IntArray
) -> None:
    """Refuse lists of another length than LightGBM reads; of a single leaf it reads none."""
    kept = [
        (block[key], count)
        for block, count, leaves in zip(blocks, counts.tolist(), n_leaves.tolist(), strict=True)
        if key in block and (block[key] or leaves > 1)
    ]
    lengths = np.array([count for _, count in kept], dtype=np.int64)
    _numbers([text for text, _ in kept], lengths, key, _parse_floats)


def _int_field(blocks: list[_Block], key: str, counts: _IntArray) -> _IntArray:
    return integers([block.get(key, "") for block in blocks], counts, key)


def _float_field(blocks: list[_Block], key: str, counts: _IntArray) -> _FloatArray:
    return _numbers([block.get(key, "") for block in blocks], counts, key, _parse_floats)


def integers(texts: list[str], counts: _IntArray | None, key: str) -> _IntArray:
    """Read lists of integers separated by blanks, `counts` of them in each text."""
    return _numbers(texts, counts, key, _parse_integers)


def _numbers(
    texts: list[str],
    counts: _IntArray | None,
    key: str,
    parse: Callable[[str], npt.NDArray[Any]],
) -> npt.NDArray[Any]:
    present = [text for text in texts if text]
    entries = np.array([text.count(" ") + 1 if text else 0 for text in texts], dtype=np.int64)
    if counts is not None and not np.array_equal(entries, counts):
        tree = int(np.flatnonzero(entries != counts)[0])
        raise _damaged(f"{key} of a tree has {entries[tree]} entries, expected {counts[tree]}")
    try:
        numbers = parse(" ".join(present))
    except (ValueError, OverflowError):
        raise _damaged(f"{key} contains something that is not a number") from None
    if len(numbers) != entries.sum():
        raise _damaged(f"{key} contains {len(numbers)} numbers, expected {entries.sum()}")
    return numbers


def _parse_integers(joined: str) -> _IntArray:
    if not joined:
        return np.empty(0, dtype=np.int64)
    # fromstring is ten times faster than int(), but only warns about what it cannot read.
    foreign = joined.encode().translate(None, b"-0123456789 ")
    minus_inside = joined.count("-") != joined.count(" -") + joined.startswith("-")
    if foreign or minus_inside or "- " in joined or joined.endswith("-"):
        raise ValueError(joined[:20])
    numbers = np.fromstring(joined, dtype=np.int64, sep=" ")
    # Larger numbers than there are become the largest, whatever their sign.
    if np.any(numbers == np.iinfo(np.int64).max):
        raise OverflowError
    return numbers


def _parse_floats(joined: str) -> _FloatArray:
    # float() knows more ways of writing a number than LightGBM does.
    if joined.encode().translate(None, b"+-0123456789.einfa "):
        raise ValueError(joined[:20])
    return np.array(list(map(float, joined.split())), dtype=np.float64)


def _parameters(tail: str, needs_parameters: bool) -> tuple[dict[str, str], str]:
    """Return the training parameters and the text after them."""
    _, start, rest = tail.partition("\nparameters:\n")
    section, end, last = rest.partition("\nend of parameters")
    if not end and (start or needs_parameters):
        raise _damaged("the line 'end of parameters' is missing, so the file is incomplete")
    lines = re.findall(r"^\[(\w+): (.*)\]$", section, flags=re.MULTILINE)
    if len(dict(lines)) != len(lines):
        raise _damaged("a parameter is listed twice")
    return dict(lines), last if end else tail


def _category_labels(tail: str) -> list[list[Any]]:
    _, marker, line = tail.rpartition("\npandas_categorical:")
    if not marker:
        if tail.rpartition("\n")[2] and "pandas_categorical:".startswith(tail.rpartition("\n")[2]):
            raise _damaged("the line pandas_categorical is cut short")
        return []
    try:
        labels = json.loads(line)
    except (ValueError, RecursionError):
        raise _damaged("the line pandas_categorical cannot be read") from None
    if labels is None:
        return []
    if not isinstance(labels, list) or not all(isinstance(column, list) for column in labels):
        raise _damaged("the line pandas_categorical is not a list of lists")
    for column in labels:
        if not all(isinstance(label, str | int | float) for label in column):
            raise _damaged(
                "the line pandas_categorical has a label that is neither text nor a number"
            )
        if len(set(column)) != len(column):
            raise _damaged("the line pandas_categorical has a label twice")
    return labels
