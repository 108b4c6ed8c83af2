"""Files with token, word and text embeddings, written by `bert-tf extract`."""
