"""Exceptions and warnings raised by treepurify."""

__all__ = [
    "ConvergenceWarning",
    "FitWarning",
    "InvalidInputError",
    "MemoryBudgetError",
    "MissingDependencyError",
    "ModelMismatchError",
    "RemainderWarning",
    "SavedFileError",
    "SupportWarning",
    "TreepurifyError",
    "UnknownComponentError",
    "UnsupportedModelError",
]


class TreepurifyError(Exception):
    """Base class of every error that treepurify raises on purpose."""


class InvalidInputError(TreepurifyError, ValueError):
    """Data, weights or options that cannot be used; the message says what to do."""


class UnsupportedModelError(TreepurifyError, ValueError):
    """A model, or a part of one, that cannot be decomposed exactly."""


class UnknownComponentError(InvalidInputError, KeyError):
    """A feature, or an effect of features, that a decomposition does not have."""

    # A KeyError prints its message as a key: in quotes, and on one line.
    __str__ = Exception.__str__


class ModelMismatchError(TreepurifyError, RuntimeError):
    """The model as read does not reproduce the library's own raw predictions.

    This is a fault of treepurify, or of a new version of the library: please report both versions.
    """


class SavedFileError(TreepurifyError, ValueError):
    """A file that is cut short, foreign, or of an unknown version."""


class MemoryBudgetError(TreepurifyError, MemoryError, RuntimeError):
    """An allocation that would exceed the memory budget; nothing was allocated."""


class MissingDependencyError(TreepurifyError, ImportError):
    """An optional package is needed; the message names the extra to install."""


class ConvergenceWarning(UserWarning):
    """An iterative solve stopped before it reached its tolerance."""


class FitWarning(UserWarning):
    """A fit leaves in the remainder what belongs to an effect."""


class SupportWarning(UserWarning):
    """The rows do not determine all effects, since some combinations of values do not occur."""


class RemainderWarning(UserWarning):
    """An export leaves the remainder out, as requested; the message says what that loses."""


def __dir__() -> list[str]:
    return __all__
