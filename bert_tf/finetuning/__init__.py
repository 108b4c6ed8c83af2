"""What scripts that fine-tune share: from flags to a run, several runs, and a finished run again."""
