"""Shapley Sets: groups of features that a function adds up over, and what each is worth."""
