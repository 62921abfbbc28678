"""Simulated programs shaped like the case studies of the paper on cost-effective modelling, Tables II and III.

Points, repetitions and the point of evaluation are the paper's, but for FASTEST, whose 25 points are not printed one by
one: a band of 24 stands in, and for Kripke, whose Table II gives 125 of 150. Kernels are drawn. Noise: most runs
scatter little and some are delayed, so that the range over repetitions has about the median and mean of Figure 8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from buran.campaign.expressions import compile_expression

_RANKS = ("1", "1", "log2(p)", "p**0.5", "p**(1/3)")
_WHOLE_S = 40.0  # of a run at the point of evaluation
_HELPED, _COMMUNICATING = 0.3, 0.25  # shares of the kernels
_HELPER_VISIT_S = 1e-7  # a helper's own time per visit: hooks take twice as long


@dataclass(frozen=True)
class Case:
    """A program to be drawn and measured.

    Attributes
    ----------
    values
        Of each parameter; the first is the number of ranks.
    target
        The point P+.
    kernels
        How many; those above 1 % of the run time are judged.
    percent, tail_probability, tail_mean
        Noise: standard deviation of the body, and how often and how far a kernel is delayed.
    """

    name: str
    values: Mapping[str, Sequence[int]]
    target: Mapping[str, int]
    kernels: int
    repetitions: int
    percent: float
    tail_probability: float
    tail_mean: float
    constraints: tuple[str, ...] = ()
    sizes: Mapping[str, tuple[str, ...]] | None = None
    strange: bool = False


def _growth(name: str) -> tuple[str, ...]:
    return (name, name, f"{name}**2", f"{name} * log2({name})", f"{name}**1.5", "1")


CASES: Mapping[str, Case] = {
    case.name: case
    for case in (
        Case(
            "FASTEST",
            {"p": (16, 32, 64, 128, 256, 512, 1024, 2048), "s": (8192, 16384, 32768, 65536, 131072)},
            {"p": 4096, "s": 8192}, 40, 5, 0.65, 0.04, 0.36,
            ("p * s >= 2097152", "p * s <= 33554432"),
        ),
        Case(
            "Kripke",
            {"p": (8, 64, 512, 4096, 32768), "d": (2, 4, 6, 8, 10), "g": (32, 64, 96, 128, 160)},
            {"p": 32768, "d": 12, "g": 160}, 12, 5, 0.4, 0.01, 0.1,
        ),
        Case(
            "LULESH",
            {"p": (125, 216, 343, 512, 729), "s": (10, 15, 20, 25, 30)},
            {"p": 1000, "s": 35}, 40, 5, 0.5, 0.03, 0.25,
            sizes={"s": ("s**3", "s**3", "s**2", "s")},
        ),
        Case(
            "MiniFE",
            {"p": (64, 128, 256, 512, 1024), "s": (75, 80, 85, 90, 95)},
            {"p": 2048, "s": 100}, 30, 5, 3.0, 0.04, 0.15,
            sizes={"s": ("s**3", "s**3", "s**2", "s")}, strange=True,
        ),
        Case(
            "Quicksilver",
            {"p": (16, 32, 64, 128, 256), "m": (2, 4, 8, 12, 16), "s": (10, 20, 30, 40, 50)},
            {"p": 512, "m": 20, "s": 60}, 20, 5, 0.5, 0.02, 0.3,
        ),
        Case(
            "RELeARN",
            {"p": (32, 64, 128, 256, 512), "s": (5000, 6000, 7000, 8000, 9000)},
            {"p": 1024, "s": 10000}, 180, 2, 0.7, 0.04, 0.25,
            sizes={"s": ("s", "s * log2(s)", "s", "1")},
        ),
    )
}  # fmt: skip


def program(case: Case, seed: int) -> dict[str, Any]:
    """Draw a program: the weights of its kernels at the point of evaluation, how they grow, what they call."""
    draw = np.random.default_rng([seed, sorted(CASES).index(case.name)])
    sizes = [name for name in case.values if name != "p"]
    weights = draw.lognormal(0.0, 1.2, case.kernels)
    weights *= _WHOLE_S / weights.sum()
    calls: dict[str, Any] = {}
    for number, weight in enumerate(weights.tolist()):
        factors = [str(draw.choice(_RANKS))]
        factors += [str(draw.choice((case.sizes or {}).get(name, _growth(name)))) for name in sizes]
        own = _normed(weight, " * ".join(f"({factor})" for factor in factors), case.target)
        node: dict[str, Any] = {"time_s": own, "visits": 100, "basic_blocks": f"floor(1e9 * {own})"}
        if case.strange and number == int(weights.argmax()):
            node["time_s"] = f"{own} * (1.4 if p == 256 else 1)"  # no function of the normal form is like that
        below: dict[str, Any] = {}
        if draw.random() < _HELPED:
            helper = _normed(weight / 10, " * ".join(f"({factor})" for factor in factors), case.target)
            visits = f"floor({helper} / {_HELPER_VISIT_S})"
            below[f"helper_{number:03d}"] = {"time_s": helper, "visits": visits, "basic_blocks": f"4 * {visits}"}
        if draw.random() < _COMMUNICATING:
            spent = _normed(weight / 5, "log2(p)", case.target)
            waiting = _normed(weight / 20, "p**0.5", case.target)
            below["MPI_Allreduce"] = {
                "time_s": spent, "visits": 100, "bytes_sent": "800 * p", "bytes_received": "800 * p",
                "waiting_s": waiting,
            }  # fmt: skip
        calls[f"kernel_{number:03d}"] = {**node, "calls": below}
    tail = {"probability": case.tail_probability, "mean": case.tail_mean}
    return {
        "schema": "buran-program/1",
        "startup_s": 0.05,
        "noise": {"distribution": "normal", "percent": case.percent, "tail": tail},
        "program": {"main": {"time_s": 0.01, "calls": calls}},
    }


def _normed(seconds: float, growth: str, target: Mapping[str, int]) -> str:
    """Return a formula that gives so many seconds at a point."""
    at = compile_expression(growth, target, "number")(target)
    return f"{seconds / float(at):.6g} * {growth}"


def campaign(case: Case, seed: int, **changes: Any) -> dict[str, Any]:
    """Return a campaign file about the case, beside a ``program.yaml``."""
    parameters = {
        name: {"role": "ranks" if name == "p" else "size", "values": list(values)}
        for name, values in case.values.items()
    }
    return {
        "name": case.name,
        "backend": "simulated",
        "simulated": "program.yaml",
        "parameters": parameters,
        "constraints": list(case.constraints),
        "repetitions": case.repetitions,
        "target": dict(case.target),
        "seed": seed,
        "resources": {"time_limit": 36000},
        **changes,
    }
