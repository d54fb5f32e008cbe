"""Effect tensors: a model as one table per subset of features."""
