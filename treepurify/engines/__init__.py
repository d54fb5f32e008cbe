"""Engines: each decomposes models or functions in its own way, and has a folder of its own.

The public function of an engine stands in ``anova.py`` (``tree/purify.py`` for the first). A
file name that stands in several folders names the same step there: ``reading`` reads the
function and the rows, ``components`` has the components that are no tables. Every other file
is named for what its engine alone does, so that no name stands for two things. What engines
share is in ``common``: an engine reads its arguments with it, and hands what it found to
``finish``.
"""
