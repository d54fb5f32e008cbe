"""Transformers whose columns are functions of one column each: which, and what is known of these.

Each reader takes a fitted transformer and the names of the columns that it takes. It returns an
`Output` for each column of the result, or the reason why that is not known.
"""

from collections.abc import Callable, Hashable
from typing import Any, Literal, NamedTuple

import numpy as np

from treepurify.rows.missing_values import is_missing
from treepurify.typing import Array

Names = tuple[str, ...]
Labels = tuple[Hashable, ...]
Reader = Callable[[Any, Names], list["Output"] | str]


class Output(NamedTuple):
    """What is known of one column that a transformer returns.

    Parameters
    ----------
    source : int
        Position, among the columns that the transformer takes, of the one it depends on.
    reads : {"numbers", "labels", "either", "missing"}
        Whether the source is read as a number, is looked up in `labels`, is passed on as it is but
        for some values, or only asked whether it is missing.
    labels : tuple of hashable
        Labels, or numbers, that the transformer distinguishes from all others.
    knots : ndarray of float64
        Numbers of the source between which, each the first of its piece, the column is monotone.
    power : float
        Largest power to which the transformer raises its input; it fails if this overflows.
    is_positive : bool
        Whether the transformer takes positive numbers only.
    """

    source: int
    reads: Literal["numbers", "labels", "either", "missing"] = "numbers"
    labels: Labels = ()
    knots: Array = np.zeros(0)
    power: float = 0.0
    is_positive: bool = False


def read_transformer(transformer: Any, names: Names) -> list[Output] | str:
    """Return what is known of each column that a fitted transformer returns, or why it is not.

    Parameters
    ----------
    transformer : object
        A fitted transformer of one table.
    names : tuple of str
        Names of the columns that it takes.

    Returns
    -------
    list of Output, or str
    """
    kind = type(transformer).__name__
    library = type(transformer).__module__.partition(".")[0]
    reader = _READERS.get(library, {}).get(kind)
    if reader is not None:
        return reader(transformer, names)
    reason = _REASONS.get(kind) if library in _READERS else None
    return reason or "the source of each of its columns is unknown"


def _each(transformer: Any, names: Names) -> list[Output]:
    return [Output(j) for j in range(len(names))]


def _power(transformer: Any, names: Names) -> list[Output]:
    is_positive = transformer.method == "box-cox"
    return [
        Output(j, power=max(abs(power), abs(2.0 - power), 1.0), is_positive=is_positive)
        for j, power in enumerate(transformer.lambdas_.tolist())
    ]


def _bins(transformer: Any, names: Names) -> list[Output]:
    if transformer.encode == "ordinal":
        return _each(transformer, names)
    return [
        Output(j, knots=np.asarray(edges[1:-1], dtype=np.float64))
        for j, edges in enumerate(transformer.bin_edges_)
        for _ in edges[1:]
    ]


# Numbers at which the monotone pieces of a function begin, those outside its domain included.
_FUNCTIONS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("negative", "positive", "cbrt", "arctan", "arcsinh", "sinh", "tanh"), ()),
    **dict.fromkeys(("exp", "exp2", "expm1", "expit", "deg2rad", "rad2deg", "radians"), ()),
    **dict.fromkeys(("degrees", "sign", "floor", "ceil", "rint", "trunc"), ()),
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "square", "absolute", "fabs", "cosh"), (0.0,)),
    "log1p": (-1.0,),
    "arccosh": (1.0,),
    "arcsin": (-1.0, float(np.nextafter(1.0, 2.0))),
    "arctanh": (-1.0, float(np.nextafter(1.0, 2.0))),
    "logit": (0.0, float(np.nextafter(1.0, 2.0))),
}


def _function(transformer: Any, names: Names) -> list[Output] | str:
    function = transformer.func
    name = getattr(function, "__name__", type(function).__name__)
    if not isinstance(function, np.ufunc) or name not in _FUNCTIONS or transformer.kw_args:
        return (
            f"it calls {name}, and whether a function is monotone in one column cannot be "
            "determined. Use a NumPy function such as numpy.log1p, without kw_args"
        )
    return [Output(j, knots=np.array(_FUNCTIONS[name])) for j in range(len(names))]


def _imputer(transformer: Any, names: Names) -> list[Output]:
    fills = np.asarray(transformer.statistics_, dtype=object)
    keeps_empty = transformer.keep_empty_features or transformer.strategy == "constant"
    # Where the most frequent value is None, the imputer takes it for a label.
    is_empty = is_missing(fills) & (fills != None) & (not keeps_empty)  # noqa: E711
    hole = _hole(transformer.missing_values)
    outputs = [
        Output(j, "either", hole + ((fill,) if isinstance(fill, str) else ()), value_knots(hole))
        for j, fill in enumerate(fills)
        if not is_empty[j]
    ]
    indicator = transformer.indicator_
    return outputs if indicator is None else outputs + _indicator(indicator, names)


def _indicator(transformer: Any, names: Names) -> list[Output]:
    hole = _hole(transformer.missing_values)
    return [Output(int(j), "missing", hole, value_knots(hole)) for j in transformer.features_]


def _hole(missing_values: Any) -> Labels:
    """Return the value that stands for missing, unless it is missing itself."""
    return () if is_missing(np.array([missing_values], dtype=object))[0] else (missing_values,)


def value_knots(labels: Labels) -> Array:
    """Return the knots around each label that is a number."""
    numbers = [x for x in labels if isinstance(x, int | float | np.number | np.bool_)]
    values = np.array(numbers, dtype=np.float64)
    values = values[~np.isnan(values)]
    return np.unique(np.concatenate([values, np.nextafter(values, np.inf)]))


def _encoded(source: int, levels: Any) -> Output:
    labels = tuple(np.asarray(levels).tolist())
    return Output(source, "labels", labels, value_knots(labels))


def _ordinal(transformer: Any, names: Names) -> list[Output]:
    return [_encoded(j, levels) for j, levels in enumerate(transformer.categories_)]


def _one_hot(transformer: Any, names: Names) -> list[Output]:
    outputs = []
    infrequent = getattr(transformer, "infrequent_categories_", None)
    for j, levels in enumerate(transformer.categories_):
        n_columns = len(levels)
        rare = None if infrequent is None else infrequent[j]
        if rare is not None and len(rare):
            n_columns += 1 - len(rare)
        if transformer.drop_idx_ is not None and transformer.drop_idx_[j] is not None:
            n_columns -= 1
        outputs += [_encoded(j, levels)] * n_columns
    return outputs


def _target(transformer: Any, names: Names) -> list[Output]:
    # With more than two classes, the columns of one feature stand together.
    n_columns = len(transformer.encodings_) // max(len(names), 1)
    return [output for output in _ordinal(transformer, names) for _ in range(n_columns)]


def _category_encoder(transformer: Any, names: Names) -> list[Output]:
    """Read an encoder of category_encoders; some list the columns that they make of each one."""
    source = {name: j for j, name in enumerate(names)}
    encoder = getattr(transformer, "base_n_encoder", transformer)
    entries = [] if isinstance(encoder.mapping, dict) else encoder.mapping
    for entry in entries:
        made = getattr(entry["mapping"], "columns", ())
        source |= {str(name): source[str(entry["col"])] for name in made}
    encoder = getattr(encoder, "ordinal_encoder", None) or encoder
    tables = encoder.mapping
    if not isinstance(tables, dict):
        tables = {entry["col"]: entry["mapping"] for entry in tables}
    labels = {source[str(column)]: _table_labels(table) for column, table in tables.items()}
    sources = [source[str(name)] for name in transformer.get_feature_names_out()]
    return [
        Output(j, "labels", labels[j], value_knots(labels[j]))
        if j in labels
        else Output(j, "either")
        for j in sources
    ]


def _table_labels(table: Any) -> Labels:
    index = table.index if hasattr(table, "index") and not isinstance(table, dict) else table
    labels = np.array(list(index), dtype=object)
    return tuple(labels[~is_missing(labels)])


_MIXING = (
    "PCA KernelPCA SparsePCA IncrementalPCA TruncatedSVD FastICA NMF PolynomialFeatures Normalizer "
    "KNNImputer IterativeImputer FeatureHasher"
)
_TEXTS = "CountVectorizer TfidfVectorizer HashingVectorizer TfidfTransformer"
_REASONS = {
    **dict.fromkeys(_MIXING.split(), "each of its columns depends on several columns"),
    **dict.fromkeys(_TEXTS.split(), "it makes vectors of texts"),
    "SplineTransformer": "its splines are not monotone functions of the column",
    "HashingEncoder": "it hashes several columns together",
}
_SCALERS = "StandardScaler MinMaxScaler MaxAbsScaler RobustScaler QuantileTransformer Binarizer"
_CATEGORY_ENCODERS = (
    "OrdinalEncoder CountEncoder TargetEncoder CatBoostEncoder LeaveOneOutEncoder WOEEncoder "
    "JamesSteinEncoder MEstimateEncoder QuantileEncoder GLMMEncoder OneHotEncoder BinaryEncoder "
    "BaseNEncoder GrayEncoder HelmertEncoder SumEncoder BackwardDifferenceEncoder PolynomialEncoder"
)
_READERS: dict[str, dict[str, Reader]] = {
    "sklearn": {
        **dict.fromkeys(_SCALERS.split(), _each),
        "PowerTransformer": _power,
        "KBinsDiscretizer": _bins,
        "FunctionTransformer": _function,
        "SimpleImputer": _imputer,
        "MissingIndicator": _indicator,
        "OrdinalEncoder": _ordinal,
        "OneHotEncoder": _one_hot,
        "TargetEncoder": _target,
    },
    "category_encoders": dict.fromkeys(_CATEGORY_ENCODERS.split(), _category_encoder),
}
