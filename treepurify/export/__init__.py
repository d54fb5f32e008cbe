"""Decompositions as EBM objects, queries, data frames, documents, spreadsheets, Shapley objects."""

from treepurify.export.ebm import to_ebm
from treepurify.export.excel import to_excel
from treepurify.export.flat_table import effects_frame
from treepurify.export.json import to_json
from treepurify.export.shap import to_shap, to_shapiq
from treepurify.export.sql import to_sql

__all__ = ["effects_frame", "to_ebm", "to_excel", "to_json", "to_shap", "to_shapiq", "to_sql"]
