"""A decomposition as a JSON document, for other languages."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from treepurify.arguments import check_result
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.links import Link
from treepurify.storage import write_atomically
from treepurify.typing import Array

__all__ = ["to_json"]


def to_json(d: Decomposition, path: str | Path | None = None) -> str:
    """Return a decomposition as JSON, and write it to a file where one is named.

    Parameters
    ----------
    d : Decomposition
        A decomposition whose components are tables of cells.
    path : str or Path, optional
        The file to write; an existing one is replaced.

    Returns
    -------
    str
        An object with ``format``, ``version``, ``measure``, ``engine``, ``link``,
        ``outputs``, ``features``, ``intercept``, ``certificate``, ``has_remainder`` (whether
        the components leave a rest of the model out, which is not in the document) and
        ``components``. Each component has its ``features``; in ``axes``, for each of them, its
        ``cuts`` or ``categories``, the ``labels`` of all cells, special ones last, and whether
        these are there (``has_other``, ``has_missing``); its
        ``variance`` (outputs) under the measure; ``values`` (cells..., outputs) on the margin
        scale; and ``mass`` (cells...). In the certificate NaN is null; an infinite cut is text.
        `json_schema` has all of this as a schema.

    Raises
    ------
    InvalidInputError
        If a component is not a table of cells, or the folder does not exist.

    Examples
    --------
    >>> import json, numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from treepurify.export import to_json
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> json.loads(to_json(d))["components"][0]["values"]
    [[-0.25], [0.25]]
    """
    check_result("d", d, Decomposition)
    document = {
        "format": "treepurify decomposition",
        "version": 1,
        "measure": d.measure,
        "engine": d.engine,
        "link": _link(d.link),
        "outputs": list(d.output_names),
        "features": list(d.feature_names),
        "intercept": d.intercept.tolist(),
        "certificate": None if d.certificate is None else _plain(asdict(d.certificate)),
        "has_remainder": d.remainder is not None,
        "components": [
            _component(d, subset, component) for subset, component in d.components.items()
        ],
    }
    text = json.dumps(document, allow_nan=False)
    if path is not None:
        write_atomically(path, text.encode("utf-8"))
    return text


def _link(link: Link) -> dict[str, Any]:
    """Return name and scale, and of a calibration what else makes it."""
    asked = ("name", "scale")
    return {k: v for k, v in asdict(link).items() if k in asked or v not in (0.0, (), None)}


def _component(d: Decomposition, subset: tuple[int, ...], component: Any) -> dict[str, Any]:
    if not isinstance(component, TensorComponent):
        raise InvalidInputError(f"{d.term_name(subset)!r} is not a table of cells")
    return {
        "features": [d.feature_names[j] for j in subset],
        "axes": [_axis(axis) for axis in component.axes],
        "variance": component.variance.tolist(),
        "values": component.values.tolist(),
        "mass": component.mass.tolist(),
    }


def _axis(axis: FeatureAxis) -> dict[str, Any]:
    special = {"has_other": axis.has_other, "has_missing": axis.has_missing}
    if axis.cuts is not None:
        return {"cuts": _numbers(axis.cuts), "labels": axis.labels(), **special}
    categories = [str(label) for label in axis.categories]
    return {"categories": categories, "labels": axis.labels(), **special}


def _numbers(values: Array) -> list[float | str]:
    return [float(value) if np.isfinite(value) else str(value) for value in values]


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in facts.items()
    }
