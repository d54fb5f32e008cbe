"""Features in groups that are one reason each, and what is said of each reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treepurify.arguments import brief, read_names
from treepurify.errors import InvalidInputError
from treepurify.terms import read_features
from treepurify.typing import Integers

__all__ = ["DIRECTIONS", "ReasonGroups", "read_groups"]

DIRECTIONS = ("high", "low")


@dataclass(frozen=True, eq=False)
class ReasonGroups:
    """The features in groups, each of which is one reason.

    Parameters
    ----------
    names : tuple of str
        Names of the groups, in the order of their first features in the model. A feature without a
        group is one by itself, under its own name.
    members : tuple of tuple of int
        The features of each group, increasing.
    texts : tuple of (str, str)
        What is said of each group where it makes the prediction higher, and where lower.
    """

    names: tuple[str, ...]
    members: tuple[tuple[int, ...], ...]
    texts: tuple[tuple[str, str], ...]

    @property
    def group_of_feature(self) -> Integers:
        """The position of the group of each feature, shape (n_features,)."""
        found = np.zeros(sum(map(len, self.members)), dtype=np.int64)
        for group, features in enumerate(self.members):
            found[list(features)] = group
        return found

    def text(self, group: int, direction: str) -> str:
        """Return what is said of a group that makes the prediction ``"high"`` or ``"low"``."""
        return self.texts[group][DIRECTIONS.index(direction)]


def read_groups(groups: Any, texts: Any, feature_names: Sequence[str]) -> ReasonGroups:
    """Read groups of features, and texts by the name of a group or of a feature without one.

    Parameters
    ----------
    groups : mapping of str to sequence of str, optional
        The features of each group.
    texts : mapping of str to (str or mapping of str to str), optional
        One text for both directions, or one under each of ``"high"`` and ``"low"``.
    feature_names : sequence of str
        The features of the model.

    Raises
    ------
    InvalidInputError
        If a group has no name or no features, shares one with another, is called like a feature
        outside it, or a text belongs to no reason or to no direction.
    UnknownComponentError
        If the model does not have a feature.
    """
    members = _members(groups, feature_names)
    grouped = {j for features in members.values() for j in features}
    for j, name in enumerate(feature_names):
        if j in grouped:
            continue
        if name in members:
            raise InvalidInputError(
                f"the group {name!r} has the name of a feature that is not in it: rename the group"
            )
        members[name] = (j,)
    ordered = sorted(members, key=lambda name: members[name])
    said = _read_texts(texts, ordered)
    return ReasonGroups(
        tuple(ordered),
        tuple(members[name] for name in ordered),
        tuple(said.get(name, (name, name)) for name in ordered),
    )


def _members(groups: Any, feature_names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    if groups is None:
        return {}
    if not isinstance(groups, Mapping):
        raise InvalidInputError(
            "groups must be a dict of names of features by the name of their group, such as "
            f'{{"payment history": ["late", "defaults"]}}, got {brief(groups)}'
        )
    members: dict[str, tuple[int, ...]] = {}
    owner: dict[int, str] = {}
    for name, given in groups.items():
        if not isinstance(name, str) or not name:
            raise InvalidInputError(f"the name of a group must be text, got {brief(name)}")
        features = (given,) if isinstance(given, str) else given
        if not read_names(f"groups[{name!r}]", features):
            raise InvalidInputError(f"the group {name!r} has no features")
        members[name] = read_features(tuple(features), feature_names)
        for j in members[name]:
            if j in owner:
                raise InvalidInputError(
                    f"feature {feature_names[j]!r} is in two groups, {owner[j]!r} and {name!r}; "
                    "each feature belongs to one reason"
                )
            owner[j] = name
    return members


def _read_texts(texts: Any, names: Sequence[str]) -> dict[str, tuple[str, str]]:
    if texts is None:
        return {}
    if not isinstance(texts, Mapping):
        raise InvalidInputError(
            "texts must be a dict with the name of a feature or group as key, such as "
            f'{{"age": "Short credit history"}}, got {brief(texts)}'
        )
    unknown = [name for name in texts if name not in names]
    if unknown:
        raise InvalidInputError(
            f"there is a text for {brief(unknown[0])}, which is neither a group nor a feature "
            f"outside groups; the reasons are {', '.join(names[:20])}"
        )
    return {name: _both_directions(name, text) for name, text in texts.items()}


def _both_directions(name: str, text: Any) -> tuple[str, str]:
    if isinstance(text, str):
        return text, text
    is_by_direction = isinstance(text, Mapping) and set(text) <= set(DIRECTIONS)
    if not is_by_direction or not all(isinstance(one, str) for one in text.values()):
        raise InvalidInputError(
            f"texts[{name!r}] must be a string, or a dict of strings with the keys 'high' (where "
            f"it raises the prediction) and 'low'; got {brief(text)}"
        )
    high, low = (text.get(direction, name) for direction in DIRECTIONS)
    return high, low
