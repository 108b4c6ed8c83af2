"""XLM-RoBERTa."""
