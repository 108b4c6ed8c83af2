"""Fine-tuning: one run or several, from flags to report."""
