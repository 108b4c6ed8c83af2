"""Tasks that ask of whole texts: their tables and examples, goals, long texts in windows, answers as files."""
