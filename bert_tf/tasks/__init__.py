"""What a model is trained to do: data, loss, metrics, predictions, serving signatures."""
