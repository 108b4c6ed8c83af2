"""What the heads share: their base classes, answers, and files of predictions."""
