"""A run folder, or several, as a page that explains them."""
