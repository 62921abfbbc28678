"""What was found, as text and numbers."""
