"""Choosing what to instrument: refinement from models, and Score-P filter files."""
