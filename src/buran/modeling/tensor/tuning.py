"""Tuned numbers that several modules of this package use."""

# A numerical parameter with at most this many values has a node at each of them. Tuned: no record of its own; choices
# were made under seeds other than the reported one (evidence/tensor.md).
FEW_NODES = 16
