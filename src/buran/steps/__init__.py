"""What the rules of the workflow do: read the files of earlier stages, decide or compute, hand over files."""
