"""Formulas that exact counts follow: solved modulo a prime, proven by more values than coefficients."""
