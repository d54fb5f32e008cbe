"""Decompositions as EBMs, queries, ONNX models, tables, documents, and objects of shap."""

from treepurify.export.ebm import to_ebm
from treepurify.export.excel import to_excel
from treepurify.export.flat_table import effects_frame
from treepurify.export.json import json_schema, to_json
from treepurify.export.onnx import to_onnx
from treepurify.export.relativities import Relativities, to_relativities
from treepurify.export.scorecard import Scorecard, to_scorecard
from treepurify.export.shap import to_shap, to_shapiq
from treepurify.export.sql import to_sql

__all__ = [
    "Relativities",
    "Scorecard",
    "effects_frame",
    "json_schema",
    "to_ebm",
    "to_excel",
    "to_json",
    "to_onnx",
    "to_relativities",
    "to_scorecard",
    "to_shap",
    "to_shapiq",
    "to_sql",
]


def __dir__() -> list[str]:
    return __all__
