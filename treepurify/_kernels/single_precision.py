"""Functions of the C library in single precision, whose rounding NumPy does not repeat."""

import math

import numpy as np

from treepurify._kernels.compiling import kernel


@kernel
def log_of_singles(x):
    """Natural logarithm of an array of float32, as `logf` rounds it."""
    result = np.empty_like(x)
    for i in range(len(x)):
        result[i] = math.log(x[i])
    return result


@kernel
def softplus_inverse_of_singles(x):
    """Return y where x is ``log(1 + exp(y))``, of float32 above 0 and rounded as by XGBoost."""
    result = np.empty_like(x)
    for i in range(len(x)):
        result[i] = x[i] + math.log(-math.expm1(-x[i]))
    return result
