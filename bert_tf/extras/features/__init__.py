"""Files of vectors of tokens, words and texts, which `bert-tf extract` writes."""
