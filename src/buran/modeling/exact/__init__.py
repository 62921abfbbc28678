"""Formulas that exact counts follow, solved modulo a prime and proven by more values than coefficients."""
