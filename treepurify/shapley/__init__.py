"""Shapley values of a decomposition or of a tree ensemble, and of groups of features."""
