"""Versions: comparing a program with an earlier version, while it is measured and afterwards."""
