"""Apache Beam: records, counts of words, and answers for many files, on any of its engines."""
