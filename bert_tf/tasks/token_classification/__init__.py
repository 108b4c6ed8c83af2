"""Tags for words: named entities, chunks, parts of speech."""
