"""LSTM language models."""
