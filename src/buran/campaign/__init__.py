"""The campaign file, its parameter space, the plan of runs and where results lie."""
