"""The links whose inverse other languages can write down."""

from typing import Literal

from treepurify.errors import UnsupportedModelError
from treepurify.links import Link

__all__ = ["Scale", "check_link"]

Scale = Literal["margin", "response"]

_WRITTEN = ("identity", "logit", "log", "softmax")


def check_link(link: Link, n_outputs: int) -> None:
    """Raise `UnsupportedModelError` unless the inverse of a link can be written down."""
    is_plain = link.before is None and (link.scale == 1.0 or link.name == "logit")
    if link.name not in _WRITTEN or not is_plain or (link.name == "softmax" and n_outputs < 2):
        raise UnsupportedModelError(
            f"the response of the link {link.name!r} cannot be exported: export the margin "
            '(scale="margin") and apply d.link.inverse to it'
        )
