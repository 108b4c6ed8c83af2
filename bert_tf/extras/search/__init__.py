"""Search: index folders of vectors of texts, exact and approximate neighbors, hard negatives, scores of retrieval."""
