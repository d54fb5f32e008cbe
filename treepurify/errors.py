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
    """Data, weights or options cannot be used.

    For example, a table has a column that the model does not know, or `X` and `y` have
    different numbers of rows. The message names the column or the option, and says what to pass.
    """


class UnsupportedModelError(TreepurifyError, ValueError):
    """A model cannot be read exactly, or an export cannot represent a part of it.

    For example, a model is a linear booster, a step of a pipeline mixes columns although
    ``columns="raw"`` was passed, or SQL is to be written for a decomposition with a remainder. The
    message names the part and, where there is one, what works instead: another setting of the
    training, another function such as `partial_dependence_anova` for any model that predicts, or
    an option of the export such as ``remainder="drop"``.
    """


class UnknownComponentError(InvalidInputError, KeyError):
    """A decomposition does not have the requested feature or effect.

    Effects are called components in the code, hence the name. The message lists similar names, or
    the effects that there are: ``d["Hour"]`` asks whether ``'hour'`` was meant.
    """

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
    """An array would exceed the memory budget; it was not allocated.

    The message states the size and what helps: usually a smaller `order`, fewer bins, or a larger
    `memory_budget`.
    """


class MissingDependencyError(TreepurifyError, ImportError):
    """An optional package is not installed; the message says what to install.

    Figures need matplotlib, for example: ``pip install "treepurify[plots]"``.
    """


class ConvergenceWarning(UserWarning):
    """An iterative solve stopped before it reached its tolerance; the result is returned.

    `purify` issues it with ``method="mass-moving"`` if the algorithm needs too many sweeps: use
    ``method="exact"``. `categorical_anova` issues it if the effects do not reproduce the best fit
    of the selected functions; the message states the size of the difference. Pass
    ``selection="least-norm"``, a smaller `rank` or `order`, or fewer bins. In both cases
    ``certificate.solver_error`` of the result is the largest error of any effect.
    """


class FitWarning(UserWarning):
    """A fit cannot be relied on: it left much of an effect out, or could match any values.

    `legendre_anova` issues it if more than a fifth of an effect is left in the remainder, and names
    the effects. A larger `degree`, ``selection="aic"``, or ``scaling="levels"`` for features with
    jumps may help. `hooker_anova` issues it if its tables have enough cells to fit any values on
    these rows. Pass more rows, or fewer `bins`.
    """


class SupportWarning(UserWarning):
    """The rows do not support all effects: some combinations of values are rare or absent.

    If `categorical_anova` issues it, ``diagnostics["identifiability"]`` of the decomposition lists
    the effects that the rows do not determine. Another distribution, such as
    ``weights="laplace"``, or a smaller `order` helps. If `legendre_anova` issues it, estimated
    densities are too small on many rows, and the message names options that help.
    """


class RemainderWarning(UserWarning):
    """An export leaves the remainder out, as requested; the message states how much is lost."""


def __dir__() -> list[str]:
    return __all__
