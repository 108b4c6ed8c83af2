"""BERT with a BiLSTM on top."""
