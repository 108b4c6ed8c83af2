"""Configurations as frozen dataclasses, and flags derived from them."""
