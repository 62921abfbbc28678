"""CPU time of one round of the published strategy `gpr`: ``python studies/benchmarks/gpr_round.py [STRATEGY ...]``.

Twenty call paths, the base of three or four parameters measured twice, 125 or 625 candidates. A strategy that asks for
more of the base would be timed without what it is named for, and ends the benchmark.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import sys
import time
from itertools import product
from statistics import median

import numpy as np

from buran.planning.base import base_indices
from buran.planning.observations import Observations
from buran.planning.protocol import PlanningState
from buran.planning.space import Space
from buran.planning.strategies import strategy_of

CALL_PATHS, ROUNDS = 20, 5


def round_s(parameters: int, seed: int, strategy: str) -> float:
    """Return CPU seconds of one suggestion."""
    random = np.random.default_rng(seed)
    points = np.array(list(product(*[(4.0, 8.0, 16.0, 32.0, 64.0)] * parameters)))
    space = Space(tuple(f"x{number}" for number in range(parameters)), points, np.ones(len(points)), points[-1])
    here = base_indices(space, published=strategy_of(strategy).abilities.base == "published")
    law = random.uniform(0.5, 2, (CALL_PATHS, parameters))
    truth = np.exp(np.log(points[here]) @ law.T).T + 1
    values = truth[..., None] * (1 + 0.02 * random.standard_normal((CALL_PATHS, len(here), 2)))
    measured = Observations(points[here], values)
    _ = measured.program_fit  # models are made alike for each strategy
    start = time.process_time()
    advice = strategy_of(strategy).suggest(PlanningState(measured, space, 1e9))
    spent = time.process_time() - start
    if not advice.suggestions or any("base" in each.reason for each in advice.suggestions):
        raise SystemExit(f"{strategy} chose nothing beyond the base: {advice}")
    return spent


if __name__ == "__main__":
    for name in sys.argv[1:] or ["gpr"]:
        for parameters, candidates in ((3, 125), (4, 625)):
            spent = [round_s(parameters, seed, name) for seed in range(ROUNDS)]
            print(f"{name}: {candidates} candidates, {CALL_PATHS} call paths: {1e3 * median(spent):.0f} ms CPU")
