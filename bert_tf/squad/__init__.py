"""Questions and the places of their answers: files, windows, spans, scores, a task."""
