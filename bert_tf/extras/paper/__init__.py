"""Experiments from the BERT paper: its ablations, and taggers on a frozen encoder's vectors."""
