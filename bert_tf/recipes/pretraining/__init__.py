"""Pre-training: flags, named recipes, and vocabulary and records before the first step."""
