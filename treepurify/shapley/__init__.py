"""Shapley values of a decomposition or a tree ensemble, and Shapley Sets."""
