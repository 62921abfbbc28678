"""Calling-context profiles of single runs, and the cubex files that hold them."""
