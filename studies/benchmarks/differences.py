"""Accuracy on functions whose growth starts at a value: ``c (g(p) - k) h(n) + d b(p)``, as of wavefronts and pipelines.

    python studies/benchmarks/differences.py [--functions 200] [--noise 0 1 5] [--seed 1]

What one rank alone does without, such as filling a pipeline or sending to p - 1 others, has a negative coefficient next
to a term that outgrows it. Ranks 4 to 64 and sizes 4 to 16, full grid; k is 1 or 1/2; 5 repetitions with uniform noise.
Reported are the share of functions within 1, 5, 10 and 20 % at four times the ranks and twice the size, and the median
error.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from buran.modeling.fit import fit_models

Array = NDArray[np.float64]
RANKS, SIZES = (4, 9, 16, 36, 64), (4, 6, 8, 12, 16)
TARGET = np.array([[256.0, 32.0]])
OF_RANKS = ((1 / 2, 0), (1, 0), (0, 1), (1 / 3, 0), (2 / 3, 0))  # powers and logarithms
OF_SIZES = ((1, 0), (2, 0), (3, 0), (1, 1), (3 / 2, 0))
REPETITIONS = 5


def main() -> None:
    """Print a line for each level of noise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", type=int, default=200)
    parser.add_argument("--noise", type=float, nargs="+", default=[0, 1, 5], help="percent")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random = np.random.default_rng(options.seed)
    points = np.array([(p, n) for p in RANKS for n in SIZES], dtype=np.float64)
    everywhere = np.concatenate([points, TARGET])
    truths = np.array([_drawn(random, everywhere) for _ in range(options.functions)])
    for noise in options.noise:
        scatter = noise / 100 * random.uniform(-1, 1, (REPETITIONS, options.functions, len(points)))
        values = (truths[:, :-1] * (1 + scatter)).mean(axis=0)
        models = fit_models(points, values).models
        predicted = np.array([model.function.evaluate(TARGET)[0] for model in models])
        error = 100 * np.abs(predicted / truths[:, -1] - 1)
        shares = " ".join(f"{100 * (error <= limit).mean():5.1f}" for limit in (1, 5, 10, 20))
        print(f"noise {noise:g} %  within 1, 5, 10, 20 %: {shares}  median error {np.median(error):.3f} %")


def _drawn(random: np.random.Generator, points: Array) -> Array:
    """Return values of a drawn function at points, shape (point,)."""
    p, n = points.T
    g, h, b = (
        x**power * np.log2(x) ** log
        for x, choice in ((p, OF_RANKS), (n, OF_SIZES), (p, OF_RANKS))
        for power, log in [choice[random.integers(len(choice))]]
    )
    c, d, k = random.uniform(1, 1000), random.uniform(0, 30), random.choice([1.0, 1.0, 0.5])
    return np.asarray(c * ((g - k) * h + d * b))


if __name__ == "__main__":
    main()
