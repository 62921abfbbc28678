"""Programs with known ground truth, built and run on a virtual clock by the rules, the store and the planner."""
