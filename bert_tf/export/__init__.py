"""SavedModels that take strings, and models for other inference engines."""
