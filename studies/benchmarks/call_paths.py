"""CPU time, memory and file size of models by the number of call paths: ``python studies/benchmarks/call_paths.py``.

Each call path has a law and noise of its own, at 15 points of two parameters with three repetitions; each number of
call paths is modelled, written and read in a process of its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

import numpy as np

from buran.modeling.fit import fit_models
from buran.modeling.pmnf import ModelSet
from buran.modeling.pmnf.model_set import read_models, write_models
from buran.modeling.pmnf.repetitions import scatter_of

NUMBERS = (500, 5_000, 50_000)
POINTS = np.array(list(product((1.0, 2.0, 4.0), (6.0, 8.0, 12.0, 16.0, 20.0))))


def generated(number: int, seed: int = 1) -> np.ndarray:
    """Return times of shape (call path, point, repetition)."""
    random = np.random.default_rng(seed)
    p, n = POINTS.T
    size, ranks = random.choice([0, 0.5, 1, 1.5, 2, 3], number), random.choice([0, -1, -1, -0.5, 1], number)
    scale, noise = 10 ** random.uniform(-6, -1, (2, number)), 10 ** random.uniform(-3, -0.5, number)
    truth = scale[0][:, None] * n ** size[:, None] * p ** ranks[:, None] + scale[1][:, None]
    return truth[..., None] * (1 + noise[:, None, None] * random.standard_normal((number, len(POINTS), 3)))


def measure(number: int) -> None:
    """Model, write and read; print what that took."""
    values = generated(number)
    start = time.process_time()
    models = fit_models(POINTS, np.median(values, axis=2), scatter=scatter_of(values)).models
    fitted = time.process_time()
    names, points = tuple(f"main->f{i}" for i in range(number)), tuple(map(tuple, POINTS.tolist()))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "models.json"
        write_models(path, [ModelSet(("p", "n"), "time", "sec", names, models, "mean", "median", points)])
        written, megabytes = time.process_time(), path.stat().st_size / 1e6
        read_models(path)
    times = fitted - start, written - fitted, time.process_time() - written
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{number:>10} {times[0]:>8.1f} {times[1]:>8.1f} {times[2]:>8.1f} {memory:>8.2f} {megabytes:>8.1f}", flush=True
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(int(sys.argv[1]))
    else:
        print("call paths    fit, s write, s  read, s   GB RSS       MB", flush=True)
        for number in NUMBERS:
            subprocess.run([sys.executable, __file__, str(number)], check=True)
