"""Functions of parameters, which all models are made of: derived values, powers and logarithms, terms and their sums."""
