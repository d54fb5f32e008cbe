"""Grids: the cells that a model can distinguish, and rows encoded on them."""
