"""The ablations of the paper as data, their runs, and what they show."""
