"""Waiting-time diagnosis on the wavefront example, and on the same with no waiting in it."""

from __future__ import annotations

import tempfile
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from buran import assets
from buran.campaign.plan import Mode
from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Array, Factor, ModelFunction, Term, added, multiplied, power, scaled
from buran.modeling.pmnf.text import format_function
from buran.modeling.priors.campaign import models_from_priors
from buran.modeling.priors.communication import operation_of
from buran.modeling.priors.paths import Source
from buran.modeling.priors.prior import Prior, communication_prior
from buran.modeling.priors.waiting import Verdict, diagnose
from buran.profiles.experiment.build import experiment_from_profiles
from buran_studies.noise import inject
from buran_studies.priors.runs import Workshop

_BLOCKS = 4
_COUNTED = tuple((ranks, n) for ranks in (1, 4, 9, 16) for n in (4, 6, 8, 12, 16))
_P, _N = (64, 144, 256, 400, 576), (8, 16, 24, 32, 40)
_REPETITIONS = 5
_LEVEL = 10.0
_SECONDS_PER_CELL, _LATENCY_S, _SECONDS_PER_BYTE = 2e-9, 2e-6, 1e-10


def evaluate(seed: int, draws: int, measured: bool) -> dict[str, Any]:
    """Diagnose waiting in receives of the wavefront example, with simulated times.

    A rank waits ``6 (sqrt(p) - 1) n^3`` cell updates in an iteration (examples/sweep), transfers bytes, and pays
    latencies. Counts are of real runs where `measured`, otherwise those that the example's documentation states.
    """
    points = np.array([(p, n) for p in _P for n in _N], dtype=np.float64)
    prior, counts = _measured_prior() if measured else (_stated_prior(), "counts as documented")
    work = Term((Factor(1, PowerLog(Fraction(3), 0)),))
    root = added((power(0, Fraction(1, 2)), ModelFunction(-1.0)))
    waiting = scaled(multiplied(root, power(1, 3)), 6 * _SECONDS_PER_CELL)
    transfer = _transfer(prior, points)
    cases = []
    for control in (False, True):
        true = transfer + (0.0 if control else waiting.evaluate(points))
        cases.append(_case(points, true, prior, work, control, seed, draws, counts))
    return {"cases": cases}


def _transfer(prior: Prior, points: Array) -> Array:
    costs = {"constant": 0.0, "calls": _LATENCY_S, "B": _SECONDS_PER_BYTE}
    return np.asarray(sum(costs[column.name] * column.function.evaluate(points) for column in prior.columns))


def _case(
    points: Array, true: Array, prior: Prior, work: Term, control: bool, seed: int, draws: int, counts: str
) -> dict[str, Any]:
    number = int(np.random.SeedSequence([seed, int(control)]).generate_state(1)[0])
    noisy = inject(true, _LEVEL, "mixed", repetitions=draws * _REPETITIONS, seed=number)
    values = np.median(noisy.reshape(len(points), draws, _REPETITIONS), axis=2).T
    found = diagnose(points, values, [prior] * draws, 0, companions=[work], seed=seed)
    named = [own for own in found if own is not None and own.verdict is Verdict.WAITING]
    terms = Counter(own.term for own in named if own.term is not None)
    right = sum(count for term, count in terms.items() if term.lead(0) == (Fraction(1, 2), 0))
    most = terms.most_common(1)
    text = format_function(ModelFunction(0.0, (1.0,), (most[0][0],)), ("p", "n")) if most else "none"
    return {
        "name": "noise-only control" if control else "wavefront",
        "control": control,
        "kind": "simulated",
        "draws": draws,
        "named": len(named),
        "right_exponent": right,
        "most": text,
        "note": f"{counts}, times simulated",
    }


def _stated_prior() -> Prior:
    """Return the prior that the example's documentation implies: 16 receives for each block, two faces each."""
    visits = ModelFunction(16.0 * _BLOCKS)
    share = added((ModelFunction(2.0), scaled(power(0, Fraction(-1, 2)), -2.0)))
    received = scaled(multiplied(share, power(1, 2)), 64.0 * _BLOCKS)
    operation = operation_of("MPI_Recv")
    assert operation is not None
    return communication_prior(
        operation, name="MPI_Recv", visits=visits, size=None, sent=ModelFunction(0.0), received=received
    )


def _measured_prior() -> tuple[Prior, str]:
    """Build and run the example with counters; return the prior of its receives."""
    with tempfile.TemporaryDirectory(prefix="buran-priors-") as name:
        workshop = Workshop.open(Path(name))
        source = assets.folder("examples") / "sweep"
        binary, _ = workshop.build("make MPICC={mpicc} CFLAGS=-O2", source, "sweep", Mode.EFFORT)
        runs = []
        for ranks, n in _COUNTED:
            profile, _ = workshop.run(binary, Mode.EFFORT, ranks, [str(n), str(_BLOCKS)])
            assert profile is not None
            runs.append(({"p": float(ranks), "n": float(n)}, 0, profile))
    counted = experiment_from_profiles(runs)
    found = models_from_priors(counted, counted, processes="p")
    for path, model in zip(counted.tree.names, found, strict=True):
        if path.endswith("receive_upstream->MPI_Recv") and model.source is Source.COMMUNICATION and model.resilient:
            return model.resilient.prior, "counts measured"
    raise AssertionError("the example has no receives")
