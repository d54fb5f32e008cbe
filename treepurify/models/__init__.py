"""Trained models of each library, read into one canonical form."""
