"""CPU time and likelihood of a fitted Gaussian process: Buran's beside scikit-learn's, on the same data in turn.

    python studies/benchmarks/gaussian_process.py [--pairs 20]

Data as a strategy has them: logarithms of times of a small program over two parameters scaled to 1, noise known from
repetitions. One process is fitted to them and asked at 125 places, by each of the two, first the one and then the
other, which goes first changing from pair to pair. Likelihoods are both judged by scikit-learn.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import time
import warnings
from collections.abc import Callable
from statistics import median

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from buran_studies.selection.strategies.likelihood import fit_process

SIZES = (10, 25, 60, 125)
NOISE = 0.05


def timed(work: Callable[[], object]) -> tuple[float, object]:
    """Return CPU time and result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def main() -> None:
    """Print a row for each number of data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20, help="of fits, for each number of data (default: 20)")
    pairs = parser.parse_args().pairs
    warnings.simplefilter("ignore")  # of optimisers at their bounds
    print("data  Buran ms  scikit-learn ms  times  likelihood: Buran less scikit-learn, median and least")
    for size in SIZES:
        spent: dict[str, list[float]] = {"buran": [], "sklearn": []}
        gaps = []
        for seed in range(pairs):
            random = np.random.default_rng(seed)
            inputs, places = random.uniform(size=(size, 2)), random.uniform(size=(125, 2))
            truth = np.log(3 + 40 * 2 ** (5 * inputs[:, 0]) + 100 * inputs[:, 1] ** 2)
            values, noise = truth + random.normal(0, NOISE, size), np.full(size, NOISE**2)
            centred = values - values.mean()
            kernel = ConstantKernel(centred.var(), (1e-6, 1e6)) * Matern([1.0, 1.0], (np.exp(-3), np.exp(4)), nu=1.5)
            other = GaussianProcessRegressor(kernel, alpha=noise)

            def ours() -> object:
                process = fit_process(inputs, values, noise)  # noqa: B023
                process.predict(places)  # noqa: B023
                return process

            def theirs() -> object:
                return other.fit(inputs, centred).predict(places, return_std=True)  # noqa: B023

            found = {}
            for name, work in sorted({"buran": ours, "sklearn": theirs}.items(), reverse=bool(seed % 2)):
                cost, found[name] = timed(work)
                spent[name].append(cost)
            theta = np.log([found["buran"].variance, *np.broadcast_to(found["buran"].lengths, 2)])  # type: ignore[attr-defined]
            gaps.append(other.log_marginal_likelihood(theta) - other.log_marginal_likelihood_value_)
        one, two = (1e3 * median(spent[name]) for name in ("buran", "sklearn"))
        ratio = median(b / a for a, b in zip(spent["buran"], spent["sklearn"], strict=True))
        print(f"{size:4d} {one:9.1f} {two:16.1f} {ratio:6.1f}  {median(gaps):+.3f} {min(gaps):+.3f}")


if __name__ == "__main__":
    main()
