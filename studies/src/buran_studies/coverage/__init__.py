"""How often a new measurement beyond the points falls into the interval, for truths of many kinds."""
