"""Words with tags: files and schemes, words in rows, entities, scores, a task."""
