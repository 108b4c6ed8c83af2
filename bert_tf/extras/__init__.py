"""What a user may want around BERT, and training, fine-tuning, answering and export do without.

Nothing outside imports it: docs/architecture.md names the sets and doors by which it is found.
"""
