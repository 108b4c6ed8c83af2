"""Classes, labels, numbers and choices for whole texts."""
