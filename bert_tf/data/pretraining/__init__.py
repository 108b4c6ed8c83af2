"""Documents to pre-training records: bounded memory, any number of workers, the same bytes."""
