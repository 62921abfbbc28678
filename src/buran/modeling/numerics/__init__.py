"""Numerics on arrays, one of each: least squares, Gaussian processes, intervals."""
