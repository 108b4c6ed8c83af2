"""What families share."""
