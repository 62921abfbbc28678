"""Tuned numbers that several modules of this package use."""

# Of a comparison's intervals, where none is asked for. Tuned: judgement.
LEVEL = 0.95
