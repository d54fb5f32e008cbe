"""How wide the cells of each feature are drawn in a report."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from treepurify.arguments import brief, check_choice
from treepurify.errors import InvalidInputError, UnknownComponentError
from treepurify.plots.axis_layout import Scale
from treepurify.terms import read_features

__all__ = ["AUTOMATIC", "Scales", "read_scales"]


@dataclass(frozen=True)
class Scales:
    """The scale of each feature, by its name.

    Parameters
    ----------
    usual : {"auto", "value", "rank", "log"}
        That of all features that are not named.
    named : mapping of str to str
        That of others.
    """

    usual: Scale = "auto"
    named: Mapping[str, Scale] = field(default_factory=dict)

    def of(self, name: str) -> Scale:
        """Return the scale of a feature."""
        return self.named.get(name, self.usual)


AUTOMATIC = Scales()


def read_scales(scale: Any, feature_names: tuple[str, ...]) -> Scales:
    """Return the scales of one word for all features, or of words by feature.

    Raises
    ------
    InvalidInputError
        If a word or a feature is unknown.
    """
    if isinstance(scale, str):
        check_choice("scale", scale, get_args(Scale))
        return Scales(scale)  # type: ignore[arg-type]
    if not isinstance(scale, Mapping):
        raise InvalidInputError(
            "scale must be one word for all features, or a dict of words by feature, such as "
            f'{{"income": "log"}}; got {brief(scale)}'
        )
    named: dict[str, Scale] = {}
    for feature, word in scale.items():
        check_choice(f"scale of {brief(feature)}", word, get_args(Scale))
        try:
            (position,) = read_features(feature, feature_names)
        except (UnknownComponentError, ValueError) as error:
            raise InvalidInputError(
                f"scale names {brief(feature)}, which is not a feature; features are "
                f"{', '.join(feature_names[:20])}"
            ) from error
        named[feature_names[position]] = word
    return Scales(named=named)
