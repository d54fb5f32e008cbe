"""Decompositions side by side: two measures, two models, before and after purification."""
