"""Which segment of a sequence loses tokens at its end; see `text.tokenizer.pack`. No TensorFlow."""

LONGEST_FIRST = "longest_first"
TRUNCATIONS = {LONGEST_FIRST: None, "only_first": 0, "only_second": 1}  # name -> number of the segment
