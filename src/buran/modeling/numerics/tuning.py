"""Tuned numbers that several modules of this package use."""

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
