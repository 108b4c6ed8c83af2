"""BERT with LayerNorm first."""
