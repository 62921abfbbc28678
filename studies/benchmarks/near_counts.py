"""Counts that no formula gives exactly, far out: ``python studies/benchmarks/near_counts.py [SEED [NUMBER]]``.

Laws are a product of powers and a second term that falls faster along the ranks, grows more slowly, or cancels a part
of the first, as boundaries of a divided grid do; counts are whole, with up to 0.3 % that depends on data. Measured are
1, 2 and 4 ranks and five sizes; predicted are twice the largest size, twice the ranks, 64 ranks at 8 times the size.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import product

import numpy as np

from buran.modeling.fit import fit_models

SIZES = ((2048, 4096, 8192, 16384, 32768), (6, 8, 12, 16, 20), (10, 20, 30, 40, 50))


def drawn(random: np.random.Generator) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """Return points and a law."""
    sizes = SIZES[random.integers(3)]
    power, divided, kind = random.choice([1, 1.5, 2, 3]), random.choice([0, 1, 1, 1]), random.integers(4)
    log, c, share = random.integers(2) * (power < 2), 10 ** random.uniform(0, 2, 4), random.uniform(0.2, 0.8)

    def law(at: np.ndarray) -> np.ndarray:
        p, n = at.T
        first = 10 * c[0] * n**power * np.log2(n) ** log / p**divided
        second = (
            c[1] * n ** (power - 1) * np.log2(n) / p**divided,
            -share * first / p,
            c[2] * (n**power / p**divided) ** (2 / 3),
            c[3] * np.log2(p) * n ** (power / 2) + c[1] * n,
        )[kind]
        return first + second + c[2]

    return np.array(list(product((1.0, 2.0, 4.0), map(float, sizes)))), law


def main(seed: int = 7, number: int = 300) -> None:
    """Print shares predicted within a tenth, and covered by the 90 % interval."""
    random = np.random.default_rng(seed)
    close, covered = [], []
    for _ in range(number):
        points, law = drawn(random)
        noise = random.choice([0, 0.001, 0.003]) * random.standard_normal(len(points))
        counts = np.floor(law(points) * (1 + noise))
        most = points[:, 1].max()
        far = np.array([[4, 2 * most], [8, most], [64, 8 * most]])
        fit, truth = fit_models(points, counts[None], exact=np.array([True])), law(far)
        low, high = fit.predict_interval(far)
        close.append(np.abs(fit.predict(far)[0] / truth - 1) <= 0.1)
        covered.append((low[0] <= truth) & (truth <= high[0]))
    for name, some in (("within 10 %", close), ("in the 90 % interval", covered)):
        print(f"{name}, at 2n, 2p, 64 ranks and 8n: " + ", ".join(f"{100 * x:.1f} %" for x in np.mean(some, axis=0)))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
