"""Profiles of one feature: observed and predicted averages in its cells, and curves along it."""
