"""Programs of known complexity: what models should find in them is known before they run."""
