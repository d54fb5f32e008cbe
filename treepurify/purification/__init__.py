"""Purification: exact solves and mass-moving, with their certificate."""
