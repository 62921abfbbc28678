"""Tuned numbers that several modules of this package use."""

# Lines of the sample; shorter ones are not distinguished. Tuned: of 8 pairs, a third is seen too many or few.
RESOLVED = 16.0

# Parts of equal probability of a cost that no point shows; ratios of two machines' speeds have its square. Tuned:
# judgement.
COST_PARTS = 5

# Of a call path's misses, from which on a kind of access is named, and of a run's, crowded sets. Tuned: judgement.
SHOWN_KIND = 0.05

# Relative, what two times differ by at least, where it is worth a word or shows where a cache ends. Tuned: judgement.
SPEED_NOISE = 0.2
