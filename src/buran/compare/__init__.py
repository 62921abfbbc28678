"""Two campaigns side by side: what grew from the one to the other, and what must not have."""
