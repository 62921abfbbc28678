"""Case studies: the bundled examples really run, their models beside theory (section 5.3, Table 4 of the paper)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from buran import assets
from buran.campaign.plan import Mode
from buran.modeling.experiments import model_experiment
from buran.modeling.functions.terms import Array, ModelFunction, added, multiplied, power
from buran.modeling.pmnf.model import Model
from buran.modeling.pmnf.text import growth_class
from buran.modeling.priors.campaign import models_from_priors, waiting_text
from buran.modeling.priors.communication import operation_of
from buran.modeling.priors.paths import PathModel
from buran.modeling.priors.prior import communication_prior
from buran.profiles.experiment.build import experiment_from_profiles
from buran.profiles.experiment.table import Experiment
from buran.profiles.profile import Profile
from buran_studies.priors.judged import at_points
from buran_studies.priors.runs import Workshop
from buran_studies.quality import exponent_deviation

PARAMETERS = ("p", "n")
REPETITIONS = 3
_ONE = ModelFunction(1.0)


@dataclass(frozen=True)
class Case:
    """An example and where it is measured.

    Attributes
    ----------
    build
        Command, with placeholders for compilers.
    p, n
        Values of the parameters; all combinations are measured.
    test
        Point that is predicted.
    rest
        Further arguments.
    waits
        Kernels that wait, and how that grows (the example's documentation).
    """

    build: str
    p: tuple[int, ...]
    n: tuple[int, ...]
    test: tuple[int, int]
    rest: tuple[str, ...] = ()
    waits: tuple[tuple[str, str], ...] = ()


CASES: Mapping[str, Case] = {
    "sweep": Case(
        "make MPICC={mpicc} CFLAGS=-O2",
        (1, 4, 9, 16),
        (4, 6, 8, 12, 16),
        (25, 20),
        ("4", "5"),
        (("receive_upstream->MPI_Recv", "p^(1/2) * n^3"),),
    ),
    "treesort": Case("make MPICXX={mpicxx} CXXFLAGS=-O2", (1, 2, 4, 8), (1024, 2048, 4096, 8192, 16384), (16, 32768)),
    "stencil": Case("make MPICXX={mpicxx} CXXFLAGS=-O2", (1, 2, 4, 8), (6, 8, 12, 16, 20), (16, 24), ("10",)),
}


@dataclass(frozen=True)
class Claim:
    """What theory says of a kernel.

    Attributes
    ----------
    kernel
        End of its call path.
    time
        How its time grows with effort.
    effort
        How basic blocks or bytes grow.
    known
        Parameters that something is claimed of.
    """

    kernel: str
    time: ModelFunction
    effort: ModelFunction
    known: tuple[bool, ...]

    @property
    def part(self) -> str:
        """Computation or communication."""
        return "communication" if "->MPI_" in f"->{self.kernel}" else "computation"


def claims(example: str) -> list[Claim]:
    """Read an example's ``complexity.yaml``: kernels with basic blocks, and MPI operations with bytes."""
    import yaml

    text = (assets.folder("examples") / example / "complexity.yaml").read_text(encoding="utf-8")
    out = []
    for kernel, metrics in yaml.safe_load(text)["kernels"].items():
        if "basic_blocks" in metrics:
            effort, known = _function(metrics["basic_blocks"])
            out.append(Claim(kernel, effort, effort, known))
            continue
        name = kernel.split("->")[-1]
        operation = operation_of(name)
        volume = next((metrics[key] for key in ("bytes_sent", "bytes_received") if key in metrics), None)
        if operation is None or volume is None:
            continue
        effort, known = _function(volume)
        visits, _ = _function(metrics["visits"])
        prior = communication_prior(operation, name=name, visits=visits, size=power(0, 1), sent=effort, received=effort)
        out.append(Claim(kernel, added(prior.functions), effort, known))
    return out


def _function(exponents: Mapping[str, Any]) -> tuple[ModelFunction, tuple[bool, ...]]:
    """Make a function of leading exponents such as ``{n: 3, p: [0, 1]}``."""
    function = _ONE
    for column, name in enumerate(PARAMETERS):
        own = exponents.get(name, 0)
        exponent, log = own if isinstance(own, list) else (own, 0)
        if exponent or log:
            function = multiplied(function, power(column, Fraction(exponent), log))
    return function, tuple(name in exponents for name in PARAMETERS)


def evaluate(example: str, repetitions: int = REPETITIONS) -> dict[str, Any]:
    """Build and run an example; model its kernels from effort, from times, and from both.

    Returns
    -------
    dict
        JSON values: a row for each kernel of its ``complexity.yaml``, and what was measured.
    """
    case = CASES[example]
    with tempfile.TemporaryDirectory(prefix="buran-priors-") as name:
        workshop = Workshop.open(Path(name))
        source = assets.folder("examples") / example
        binaries = {mode: workshop.build(case.build, source, example, mode)[0] for mode in (Mode.TIME, Mode.EFFORT)}
        counted = experiment_from_profiles(_runs(workshop, binaries[Mode.EFFORT], Mode.EFFORT, case, 1))
        timed = experiment_from_profiles(_runs(workshop, binaries[Mode.TIME], Mode.TIME, case, repetitions))
    return {
        "example": example,
        "repetitions": repetitions,
        "test": case.test,
        "rows": judge(example, timed, counted),
    }


def _runs(
    workshop: Workshop, binary: Path, mode: Mode, case: Case, repetitions: int
) -> Iterator[tuple[Mapping[str, float], int, Profile]]:
    points = [*product(case.p, case.n), *([case.test] if mode is Mode.TIME else [])]
    for repetition in range(repetitions):
        for p, n in points:
            profile, _ = workshop.run(binary, mode, p, [str(n), *case.rest])
            assert profile is not None
            yield {"p": float(p), "n": float(n)}, repetition, profile


def judge(example: str, timed: Experiment, counted: Experiment) -> list[dict[str, Any]]:
    """Compare models with theory and with the test point; one row for each kernel."""
    case = CASES[example]
    at = np.array([case.test], dtype=np.float64)
    test = (timed.points == at).all(axis=1)
    actual = np.median(timed.over_locations("time")[:, test], axis=2)[:, 0]
    training = at_points(timed, ~test)
    found = models_from_priors(training, counted, processes="p")
    classic = model_experiment(training, ["time"])["time"].models
    bare = ["->" + "->".join(part.split("(")[0] for part in name.split("->")) for name in timed.tree.names]
    waits = dict(case.waits)
    out = []
    for claim in claims(example):
        rows = [row for row, path in enumerate(bare) if path.endswith(f"->{claim.kernel}")]
        row = max(rows, key=lambda row: actual[row], default=None)
        if row is None:
            continue
        model, plain = found[row], classic[row]
        out.append(
            {
                "kernel": claim.kernel,
                "part": claim.part,
                "theory": growth_class(claim.time, PARAMETERS),
                "theory_waiting": waits.get(claim.kernel, ""),
                "source": str(model.source),
                "notes": list(model.notes),
                "time_s": float(actual[row]),
                **_effort(model, claim),
                **_times(plain, claim, at, float(actual[row])),
                **_both(model, claim, at, float(actual[row])),
            }
        )
    return out


def _effort(model: PathModel, claim: Claim) -> dict[str, Any]:
    effort = model.effort
    return {
        "effort": None if effort is None else growth_class(effort, PARAMETERS),
        "ed_effort": None if effort is None else _deviation(effort, claim.effort, claim),
    }


def _times(model: Model | None, claim: Claim, at: Array, actual: float) -> dict[str, Any]:
    return {
        "sensitive": None if model is None else growth_class(model.function, PARAMETERS),
        "ed_sensitive": None if model is None else _deviation(model.function, claim.time, claim),
        "re_sensitive": None if model is None else _error(model.function, at, actual),
    }


def _both(model: PathModel, claim: Claim, at: Array, actual: float) -> dict[str, Any]:
    if model.resilient is None or model.final is None:
        keys = ("resilient", "ed_resilient", "re_resilient", "re_final", "waiting")
        return dict.fromkeys(keys)
    prior = added(model.resilient.prior.functions)
    return {
        "resilient": growth_class(prior, PARAMETERS),
        "ed_resilient": _deviation(prior, claim.time, claim),
        "re_resilient": _error(model.resilient.model.function, at, actual),
        "re_final": _error(model.final.function, at, actual),
        "waiting": None if model.waiting is None else waiting_text(model.waiting, PARAMETERS),
    }


def _deviation(found: ModelFunction, true: ModelFunction, claim: Claim) -> list[float | None]:
    each: Sequence[float] = exponent_deviation(found, true, len(PARAMETERS)).tolist()
    return [value if known else None for value, known in zip(each, claim.known, strict=True)]


def _error(function: ModelFunction, at: Array, actual: float) -> float | None:
    return abs(float(function.evaluate(at)[0]) / actual - 1) if actual > 0 else None
