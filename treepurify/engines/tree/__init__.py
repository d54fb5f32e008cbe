"""Tree ensembles and additive models, purified on the cells of their own splits."""
