"""How strongly features interact: variance by order, total indices, and H-statistics."""
