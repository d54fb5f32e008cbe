"""Decompositions as EBM objects, data frames and JSON."""
