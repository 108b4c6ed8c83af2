"""Search: index folders of text embeddings, exact and approximate neighbors, hard negatives, retrieval scores."""
