"""Masked language modeling and next sentence prediction."""
