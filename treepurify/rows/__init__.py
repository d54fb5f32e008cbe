"""Rows: tables and how they are read, what rows weigh, and samples of them.

`tables` asks any kind of table for its columns, `table_reader` makes `columns` of floats of them as
a model's features ask, `row_weights` and `samples` count and draw rows.
"""
