"""Types of arrays, named once for all files."""

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Indices", "Integers", "Mask"]

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
