"""CamemBERT."""
