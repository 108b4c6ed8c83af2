"""DeBERTa-v2 and -v3."""
