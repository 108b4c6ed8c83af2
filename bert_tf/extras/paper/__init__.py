"""Experiments of the BERT paper: its ablations, and taggers on the vectors of a frozen encoder."""
