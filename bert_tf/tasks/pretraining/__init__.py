"""Masked language modelling and next sentence prediction."""
