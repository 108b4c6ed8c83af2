"""What layouts are made of."""
