"""Engines: each decomposes models or functions in its own way, and has a folder of its own.

The public function of an engine stands in ``anova.py``; that of ``tree`` in ``purify.py``. A
file name that occurs in several folders names the same step in each: ``reading`` reads the
function and the rows, ``components`` defines the components that are not tables. Every other
file is named for what only this engine does, so no name stands for two things. What engines
share is in ``common``: an engine reads its arguments with it, and ``finish`` makes the
decomposition from what the engine found.
"""
