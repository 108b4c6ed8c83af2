"""Pages that explain one run folder or compare several."""
