"""Audits: a model purified under several measures, and what stands out, ranked."""
