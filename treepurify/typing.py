"""Types of arrays, named once for all files."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.floating[Any]]
Indices = npt.NDArray[np.intp]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
