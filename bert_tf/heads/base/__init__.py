"""Shared parts of heads: base classes, answers, and files of predictions."""
