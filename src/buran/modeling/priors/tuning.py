"""Tuned numbers that several modules of this package use."""

# A function with more terms must be so many times as exact. Tuned: judgement.
CLOSE = 30.0

# Standard deviations from which on a point pulls no harder. Tuned: the loss of Huber (1964); no record of why at 2.
OUTLIERS = 2.0

# Seconds of one counted unit of effort, and of what a call takes beside: what takes longer is not done by the code
# that was counted. Tuned: judgement.
SLOWEST_S = 1e-5
