"""The exact training step, the loop around it, checkpoints and the run directory. Knows Task, but no specific task."""
