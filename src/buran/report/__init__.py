"""What was found, in words and numbers."""
