"""Engines: each turns a model into a decomposition."""
