"""Parts of layouts."""
