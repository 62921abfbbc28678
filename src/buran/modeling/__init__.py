"""From measured values to models of performance; the published methods have a package each.

| package | content |
|---|---|
| `functions` | functions of parameters, which all models are made of |
| `pmnf` | performance model normal form: search, regression, quality |
| `exact` | formulas of counts, which have no noise |
| `fit` | models of many call paths at once: a formula where counts have one, else a normal form |
| `price` | the cost of a unit of counted work: regression, noise, and a Gaussian process for what is left |
| `priors` | noise-resilient priors from counts |
| `tensor` | models over many parameters by tensor completion (CPR) |
| `correction` | corrections of analytical models by evolution (MECP) |
| `numerics` | least squares, Gaussian processes and intervals on arrays |
"""
