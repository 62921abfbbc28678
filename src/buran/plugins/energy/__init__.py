"""Energy: joules of runs next to core hours, measured, modelled and reported."""
