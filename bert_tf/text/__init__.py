"""Strings to tokens: the exact WordPiece tokenizer, vocabularies, raw text. Never imports Keras."""
