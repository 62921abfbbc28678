"""From measured values to models of performance; the published methods have a package each.

| package | content |
|---|---|
| `pmnf` | performance model normal form: terms, search, fit, quality |
| `exact` | formulas of counts, which have no noise, and efforts: what counts of call paths grow like |
| `price` | the cost of a unit of counted work: regression, noise, and a Gaussian process for what is left |
| `priors` | noise-resilient priors from counts |
| `tensor` | models over many parameters by tensor completion (CPR) |
| `correction` | corrections of analytical models by evolution (MECP) |
| `numerics` | least squares, Gaussian processes and intervals on arrays |
"""
