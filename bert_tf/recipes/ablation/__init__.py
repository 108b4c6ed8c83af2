"""The paper's ablations: which runs, their results as tables and pictures."""
