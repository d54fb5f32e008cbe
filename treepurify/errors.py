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
    """Base class of all errors that treepurify raises on purpose."""


class InvalidInputError(TreepurifyError, ValueError):
    """Data, weights or options cannot be used; the message says what to do."""


class UnsupportedModelError(TreepurifyError, ValueError):
    """A model, or a part of it, cannot be decomposed exactly."""


class UnknownComponentError(InvalidInputError, KeyError):
    """A decomposition does not have the requested feature or effect."""

    # A KeyError prints its message as a key: in quotes, and on one line.
    __str__ = Exception.__str__


class ModelMismatchError(TreepurifyError, RuntimeError):
    """The parsed model does not reproduce the raw predictions of its library.

    Either treepurify has a bug, or a new version of the library stores models differently. Please
    report it with the versions of both.
    """


class SavedFileError(TreepurifyError, ValueError):
    """A file is incomplete, was not written by treepurify, or has an unknown version."""


class MemoryBudgetError(TreepurifyError, MemoryError, RuntimeError):
    """An allocation would exceed the memory budget; nothing was allocated."""


class MissingDependencyError(TreepurifyError, ImportError):
    """An optional package is not installed; the message names the extra to install."""


class ConvergenceWarning(UserWarning):
    """An iterative solve stopped before it reached its tolerance."""


class FitWarning(UserWarning):
    """A fit left part of an effect in the remainder."""


class SupportWarning(UserWarning):
    """The rows do not support all effects: some combinations of values are rare or absent.

    If `categorical_anova` issues it, ``diagnostics["identifiability"]`` of the decomposition lists
    the effects that the rows do not determine. Another distribution, such as
    ``weights="log-linear"``, or a smaller `order` helps. If `legendre_anova` issues it, estimated
    densities are too small on many rows, and the message names options that help.
    """


class RemainderWarning(UserWarning):
    """An export leaves the remainder out, as requested; the message states how much is lost."""


def __dir__() -> list[str]:
    return __all__
