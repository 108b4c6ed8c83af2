"""Search: index folders of vectors of texts, exact and approximate neighbors, re-ranking."""
