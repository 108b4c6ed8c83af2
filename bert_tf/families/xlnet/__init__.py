"""XLNet."""
