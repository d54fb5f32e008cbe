"""Grids: the cells that a model can tell apart, and rows encoded on them."""
