"""The console script `bert-tf`."""
