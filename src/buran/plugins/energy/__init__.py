"""Energy: joules of runs beside core hours, measured, modelled and reported."""
