"""Tuned numbers that several modules of this package use."""

# Costs are taken for so much larger: a run that is stopped at the budget is lost. Tuned: judgement.
CAREFUL = 1.1

# Share of what is left of the budget that one round of a plan spends, at most on what models cannot do without.
# Tuned: named by evidence/point-selection.md: chosen on functions of seeds other than the reported ones.
ROUND_SHARE = 1 / 3

# Times a plain run, that one takes that samples accesses to memory, until one was seen. Tuned: between the least and
# the most of evidence/caches.md.
SAMPLED_RATIO = 3.0
