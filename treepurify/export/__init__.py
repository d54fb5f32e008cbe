"""Decompositions as EBM objects, data frames, JSON documents and spreadsheets."""

from treepurify.export.ebm import to_ebm
from treepurify.export.excel import to_excel
from treepurify.export.frame import effects_frame
from treepurify.export.json import to_json

__all__ = ["effects_frame", "to_ebm", "to_excel", "to_json"]
