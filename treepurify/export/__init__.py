"""Decompositions as EBMs, queries and factors, and Shapley values as objects of shap."""

from treepurify.export.ebm import to_ebm
from treepurify.export.relativities import to_relativities
from treepurify.export.shap import to_shap
from treepurify.export.sql import to_sql

__all__ = ["to_ebm", "to_relativities", "to_shap", "to_sql"]


def __dir__() -> list[str]:
    return __all__
