"""What the rules of the workflow do: read what earlier stages left, decide or compute, hand over files."""
