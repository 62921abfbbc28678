"""Buran: build, run and analyse parallel programs to learn how they scale."""

__version__ = "0.2.0"
