"""Apache Beam: TFRecords, word counts, and inference on many files, on any of its runners."""
