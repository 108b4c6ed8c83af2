"""Vectors of tokens, words and texts, and taggers trained on frozen ones."""
