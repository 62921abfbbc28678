"""The study `selection`: strategies that choose measurement points."""
