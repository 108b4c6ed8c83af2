"""Configurations as frozen dataclasses, and flags made from them."""
