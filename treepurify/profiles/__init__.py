"""One feature beside what was observed: averages in its cells, and curves along it."""
