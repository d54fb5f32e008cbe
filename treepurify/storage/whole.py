"""What must hold of a loaded decomposition as a whole."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from treepurify.certificate import Certificate
from treepurify.columns import Columns
from treepurify.components import Component, evaluate_each
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError, SavedFileError
from treepurify.storage.field_types import check_types

__all__ = ["check_whole"]

_N_PROBES = 2


def check_whole(d: Decomposition, *, calls_given_function: bool) -> None:
    """Refuse parts that do not belong together; evaluate every component on made-up rows.

    Parameters
    ----------
    d : Decomposition
        As it came from the file.
    calls_given_function : bool
        Whether evaluating may call a function of the user, which is spared such rows.

    Raises
    ------
    SavedFileError
        If something does not fit.
    """
    _check_fields(d)
    n_outputs = len(d.output_names)
    if n_outputs == 0 or d.intercept.shape != (n_outputs,) or not np.all(np.isfinite(d.intercept)):
        raise SavedFileError(f"the file has {n_outputs} outputs, but the intercept {d.intercept}")
    for subset in d.components:
        if subset != tuple(sorted(set(subset))) or not set(subset) <= set(_features(d)):
            raise SavedFileError(f"the file has a component of features {subset}")
    for what, values in _numbers_of_outputs(d):
        if values.shape != (n_outputs,):
            raise SavedFileError(f"the file has {what} of shape {values.shape}, not {(n_outputs,)}")
    if calls_given_function:
        return
    try:
        shapes = _shapes_of_values(d)
    except Exception as error:
        # Compiled code has exceptions of its own for arrays that it was not made for.
        raise SavedFileError(
            f"the file holds what cannot be evaluated ({type(error).__name__}: {error})"
        ) from error
    if shapes - {(_N_PROBES, n_outputs)}:
        raise SavedFileError(f"the file has values of shapes {shapes} for {n_outputs} outputs")


def _check_fields(d: Decomposition) -> None:
    plain = {"components": dict(d.components), "diagnostics": dict(d.diagnostics)}
    check_types("decomposition", Decomposition, vars(d) | plain)
    if d.certificate is not None:
        check_types("certificate", Certificate, vars(d.certificate))


def _features(d: Decomposition) -> range:
    return range(len(d.inputs.features))


def _parts(d: Decomposition) -> list[Component]:
    return [*d.components.values(), *([] if d.remainder is None else [d.remainder])]


def _numbers_of_outputs(d: Decomposition) -> Iterator[tuple[str, Any]]:
    for subset, values in (d.stored_covariances or {}).items():
        yield f"a covariance of features {subset}", values
    for part in _parts(d):
        # Only what is stored: some variances take long to compute.
        for name in ("variance", "mean_absolute"):
            if name in vars(part):
                yield f"the field {name} of {part!r}", getattr(part, name)


def _shapes_of_values(d: Decomposition) -> set[tuple[int, ...]]:
    values = tuple(np.arange(_N_PROBES, dtype=np.float64) for _ in _features(d))
    rows = Columns(d.inputs.features, values, _N_PROBES)
    try:
        return {own.shape for own in evaluate_each(_parts(d), rows)}
    except InvalidInputError:
        # Something calls a function that is not in the file; what does not is looked at alone.
        return {shape for part in _parts(d) for shape in _shape_of_values(part, rows)}


def _shape_of_values(part: Component, rows: Columns) -> list[tuple[int, ...]]:
    try:
        return [part.evaluate(rows).shape]
    except InvalidInputError:
        return []
