"""Checking what runs print: patterns that must or must not appear, and values that must be near a reference."""
