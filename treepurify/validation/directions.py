"""Read in which direction a margin must go along features: as asked for, or as a model says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treepurify.arguments import brief
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Grid
from treepurify.models.parse import Model
from treepurify.rows.columns import FeatureSpec
from treepurify.terms import read_features
from treepurify.typing import Indices

__all__ = ["Direction", "Directions", "carried_directions", "read_directions"]

Directions = Mapping[str | int, str | Sequence[Any]]

_SIGNS = {"increasing": 1, "decreasing": -1}
_MOST_NAMED = 10


@dataclass(frozen=True, eq=False)
class Direction:
    """In which direction a margin must go along a feature.

    Parameters
    ----------
    feature : int
        The feature.
    cells : ndarray of int64, shape (n_places,)
        Its cells, in the order in which they are stepped through.
    sign : int
        1 where the margin must not fall from one of them to the next, -1 where it must not rise.
    words : str
        The direction in words.
    """

    feature: int
    cells: Indices
    sign: int
    words: str


def read_directions(given: Directions | None, model: Model, grid: Grid) -> list[Direction]:
    """Return the directions asked for; without any, those of the constraints that a model carries.

    Parameters
    ----------
    given : mapping of (str or int) to (str or sequence), optional
        By feature ``"increasing"``, ``"decreasing"``, or the categories, from the smallest margin
        to the largest.
    model : TreeEnsemble or AdditiveTables
        The model.
    grid : Grid
        Its cells.

    Raises
    ------
    InvalidInputError
        If a feature or a category is not there, a direction is none, or there is none at all.
    """
    if given is None:
        given = carried_directions(model)
        if not given:
            raise InvalidInputError(
                "the model has no monotone constraints, so name the directions to check: "
                'directions={"income": "increasing"}. Files of XGBoost do not contain its '
                "constraints; the trained model in memory has them."
            )
    if not isinstance(given, Mapping) or not given:
        raise InvalidInputError(
            'directions must name features and directions, such as {"income": "increasing"}; got '
            f"{brief(given)}"
        )
    names = [spec.name for spec in model.features]
    found: dict[int, Direction] = {}
    for key, direction in given.items():
        positions = read_features(key, names)
        if len(positions) != 1 or positions[0] in found:
            raise InvalidInputError(f"directions must name each feature once; got {brief(key)}")
        j = positions[0]
        found[j] = _direction(j, model.features[j], grid.axes[j], direction)
    return list(found.values())


def carried_directions(model: Model) -> dict[str | int, str]:
    """Return the directions of the constraints that a model carries; empty without any."""
    words = {sign: word for word, sign in _SIGNS.items()}
    return {
        spec.name: words[sign]
        for spec, sign in zip(model.features, model.source.constraints, strict=False)
        if sign in words and not spec.is_categorical
    }


def _direction(j: int, spec: FeatureSpec, axis: FeatureAxis, given: Any) -> Direction:
    if isinstance(given, str) and given in _SIGNS:
        if spec.is_categorical:
            raise InvalidInputError(
                f"{spec.name!r} is categorical: pass its categories, from the smallest margin to "
                f"the largest, not {given!r}"
            )
        return Direction(j, np.arange(axis.n_regular), _SIGNS[given], given)
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        raise InvalidInputError(
            f'the direction of {spec.name!r} must be "increasing" or "decreasing", or a list of '
            f"categories; got {brief(given)}"
        )
    if not spec.is_categorical:
        raise InvalidInputError(
            f'{spec.name!r} is numeric: pass "increasing" or "decreasing", got {brief(given)}'
        )
    codes = [_code(spec, label) for label in given]
    if len(codes) < 2 or len(set(codes)) < len(codes):
        raise InvalidInputError(
            f"the order of {spec.name!r} must name two different categories or more, got "
            f"{brief(list(given))}"
        )
    order = " <= ".join(str(spec.labels[code]) for code in codes)
    return Direction(j, np.array(codes, dtype=np.intp), 1, order)


def _code(spec: FeatureSpec, label: Any) -> int:
    """Return the code of a category, which may be named by its text."""
    labels = list(spec.labels)
    if label in labels:
        return labels.index(label)
    texts = [str(one) for one in labels]
    if str(label) in texts:
        return texts.index(str(label))
    if not labels:
        raise InvalidInputError(
            f"the model tests no category of {spec.name!r} and knows none: leave it out"
        )
    listed = ", ".join(map(repr, labels[:_MOST_NAMED])) + ", ..." * (len(labels) > _MOST_NAMED)
    raise InvalidInputError(f"{spec.name!r} has no category {label!r}; the model knows {listed}")
