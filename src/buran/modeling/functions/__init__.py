"""Functions of parameters, of which all models are made: derived values, powers and logarithms, sums of terms."""
