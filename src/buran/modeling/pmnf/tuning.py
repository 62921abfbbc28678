"""Tuned numbers that several modules of this package use."""

# Hypotheses of one size, terms of one parameter, or corrections, that are taken further; of several parameters where
# there are as many points for each. Tuned: ablation, seed 4242 (evidence/models.md).
BEAM = 8

# An error so much smaller than without a term, or a steeper power, speaks for it whatever the score says. Tuned:
# ablation: with 1, cubic counts of CoMD that are rounded become n^(5/2) log2(n)^2.
PROGRESS = 0.5

# Error up to which a model says something, and by which a time falls. Tuned: no record of its own; all was tuned on
# seeds other than the reported ones (evidence/models.md).
STEADY = 0.15

# Times the largest value of each parameter: up to there no prediction is negative. Tuned: judgement.
REACH = 8.0

# Bits that prove a formula, a further term, or one formula against another. Tuned: judgement.
MARGIN_BITS = 4.0

# Standard deviations of the process, in nats: the last beside counted work; beside a function found by search, which
# follows most, the evidence chooses. Tuned: ablation on drifting prices, seeds 1 to 3 (docs/evidence/price.md).
DEVIATIONS = (0.1, 0.3)

# Times what was measured times the growth of counts, or times an analytical model and its coefficients: a larger
# prediction is not known, and no correction. Tuned: the cost of a unit of work grows less from caches to memory or
# with waiting for the network; the absurd predictions of AMG and miniVite were a hundred times beyond.
ALLOWANCE = 10.0
