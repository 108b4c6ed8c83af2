"""Contextual vectors of texts, and tagging on them: which layers, where each token is seen best, files, a cache."""
