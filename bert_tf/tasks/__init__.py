"""Tasks: data, loss, metrics, predictions, serving signatures."""
