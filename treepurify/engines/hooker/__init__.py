"""Hooker's weighted functional ANOVA of any function."""
