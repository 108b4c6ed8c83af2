"""Shared parts of families."""
