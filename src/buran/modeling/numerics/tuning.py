"""Tuned numbers that several packages use."""

# Of a time, a variance, a weight, a count or a limit: what is less changes no conclusion. Tuned: judgement:
# `scorep-score -g` leaves what has less than 1 % of a trace in, too.
MATTERS = 0.01

# Of a time, a variance, a weight or accesses: so much stands for all of it. Tuned: judgement.
NEARLY = 0.9

# Of a time or of misses: what has more explains, or distorts, all of it. Tuned: the larger part.
LARGER = 0.5

# Of a resource, at most, that one thing takes where others need it: of a cache and of free memory; of what is left of
# a budget, for what comes before or beside the points that models ask for (runs of the base, pilots, a plan of
# unknown cost, samples of accesses to memory, the same points under a new filter, evaluation points). Tuned:
# judgement.
HALF = 0.5

# Of a time or a budget, that measuring hooks may take where nobody names a limit. Tuned: judgement.
OVERHEAD = 0.05

# Of the largest value: smaller ones count as this one. Tuned: judgement.
FLOOR = 1e-3

# Relative noise of one run until repetitions and residuals say more, and of what all runs of a point share. Tuned:
# judgement.
NOISE = 0.03

# Repetitions that this first guess is worth, degrees of freedom that the noise of others is, and call paths that the
# usual noise of what models leave over is. Tuned: judgement.
WORTH = 2.0

# Fewest values that tell something: of a parameter, points with the baseline beside them, call paths that share
# costs, degrees of freedom of noise. Tuned: the fewest that tell growth from a constant, and scatter.
FEW = 3

# Of an iteration or a campaign that has not settled before, or of a trial that brings nothing more. Tuned: judgement.
STEPS = 12

# Products, points of a process, draws or places, that are looked at, about. Tuned: ablation, seed 4242
# (evidence/models.md).
COMBINATIONS = 200

# Relative deviation of means of exact counts, which rounding explains.
OF_MEANS = 1e-6

# Hypotheses of one size of a single parameter, terms of one parameter, or corrections, that are taken further. Tuned:
# ablation, seed 4242 (evidence/models.md).
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
