"""Effect tensors: a model as one table a subset of features."""
