"""Transformers of numbers: scalers, powers, quantiles, bins, and known functions of NumPy.

Each function here is a reader: it takes a fitted transformer and the names of the columns that
it reads, and returns a `Reading`.
"""

from typing import Any

import numpy as np

from treepurify.models.pipelines.columns import OutputColumn, Reading
from treepurify.typing import Array

__all__ = ["READERS"]

Names = tuple[str, ...]

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


def _monotone(transformer: Any, names: Names) -> Reading:
    return Reading([OutputColumn(name, j) for j, name in enumerate(names)])


def _power(transformer: Any, names: Names) -> Reading:
    is_positive = transformer.method == "box-cox"
    return Reading(
        [
            OutputColumn(
                name, j, power=max(abs(power), abs(2.0 - power), 1.0), is_positive=is_positive
            )
            for j, (name, power) in enumerate(
                zip(names, transformer.lambdas_.tolist(), strict=True)
            )
        ]
    )


def _bins(transformer: Any, names: Names) -> Reading:
    if transformer.encode == "ordinal":
        return _monotone(transformer, names)
    outputs = []
    for j, (name, edges) in enumerate(zip(names, transformer.bin_edges_, strict=True)):
        inner = np.asarray(edges[1:-1], dtype=np.float64)
        outputs += [
            OutputColumn(f"{name}_{float(k)}", j, knots=inner) for k in range(len(edges) - 1)
        ]
    return Reading(outputs)


def _function(transformer: Any, names: Names) -> Reading | str:
    function = transformer.func
    name = getattr(function, "__name__", type(function).__name__)
    is_known = isinstance(function, np.ufunc) and name in _FUNCTIONS and not transformer.kw_args
    if not is_known:
        return (
            f"it calls {name}, and whether a function is monotone in one column cannot be "
            "determined. Use a NumPy function such as numpy.log1p, without kw_args"
        )
    knots: Array = np.array(_FUNCTIONS[name])
    return Reading([OutputColumn(name, j, knots=knots) for j, name in enumerate(names)])


READERS = {
    **dict.fromkeys(("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler"), _monotone),
    **dict.fromkeys(("QuantileTransformer", "Binarizer"), _monotone),
    "PowerTransformer": _power,
    "KBinsDiscretizer": _bins,
    "FunctionTransformer": _function,
}
