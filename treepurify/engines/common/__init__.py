"""What several engines share: reading their arguments, calling models, putting results together."""
