"""Compose fitted transformers with the trees behind them into trees on the raw columns."""
