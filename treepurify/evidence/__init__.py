"""Evidence: how sure an effect is, what it is worth on held-out rows, and what can go."""
