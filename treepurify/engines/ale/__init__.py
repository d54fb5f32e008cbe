"""Accumulated local effects of the first and second order."""
