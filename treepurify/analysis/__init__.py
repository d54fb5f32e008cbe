"""Importance, comparison and audits of decompositions."""
