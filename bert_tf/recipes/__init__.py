"""What the scripts do, from flags to report."""
