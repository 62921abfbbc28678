"""Pairs of versions: a program, and the same with one change that is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray

from buran.modeling.experiments import model_experiment
from buran.modeling.functions.terms import ModelFunction, multiplied, power, scaled
from buran.modeling.pmnf.text import growth_class
from buran.plugins.versions.side import Side
from buran.profiles.experiment.table import AGGREGATES, Experiment
from buran.profiles.profile import SEPARATOR, CallTree, Region
from buran_studies.generator.program import Truth
from buran_studies.generator.spec import communicator, random_spec

Array = NDArray[np.float64]
Program = dict[str, dict[str, ModelFunction]]
"""Counts of each call path by metric: means over ranks, before whole numbers are made of them."""

PARAMETERS = ("p", "n")
VALUES = {"p": (2, 3, 4, 5, 6), "n": (4, 8, 16, 32, 64)}
TARGET = {"p": 1024.0, "n": 1024.0}
EXAMPLES = ("stencil", "sweep", "treesort")
PROGRAMS = ("generated", "generated", *EXAMPLES)
KERNELS = 6  # of a generated program
METRICS = ("basic_blocks", "bytes_sent", "bytes_received", "visits")
CHANGED = ("loop order", "p to p^2", "n to n log n", "message doubled", "barrier added")
SAME = ("renamed", "moved", "reformatted")
KINDS = CHANGED + SAME
_FACTORS = {"loop order": power(1, 1), "p to p^2": power(0, 1), "n to n log n": power(1, 0, 1)}
_BLOCKS = 5.0  # of a visit, beside loops


@dataclass(frozen=True)
class Pair:
    """Two versions and what is different.

    Attributes
    ----------
    metric, call_path
        Of the change; empty where all counts are the same.
    growth
        Growth class of the changed count in the later version; empty where there is none.
    """

    kind: str
    program: str
    before: Program
    after: Program
    metric: str = ""
    call_path: str = ""
    growth: str = ""


def points() -> Array:
    """Return the points that a comparison looks at: the lines and one point off them, shape (point, parameter)."""
    low = [values[0] for values in VALUES.values()]
    rows = [(p, low[1]) for p in VALUES["p"]] + [(low[0], n) for n in VALUES["n"][1:]] + [(3, 8)]
    return np.array(rows, dtype=np.float64)


def pair(number: int, seed: int, examples: Path) -> Pair:
    """Make the pair of a number: all kinds of changes in turn, each on all programs in turn."""
    kind, program = KINDS[number % len(KINDS)], PROGRAMS[number // len(KINDS) % len(PROGRAMS)]
    random = np.random.default_rng([seed, number])
    before = _generated(seed, number) if program == "generated" else _example(examples / program / "complexity.yaml")
    if kind in SAME:
        return Pair(kind, program, before, _same(kind, before, random))
    metric = "visits" if kind == "barrier added" else "bytes_sent" if kind == "message doubled" else "basic_blocks"
    path = _choice([name for name, own in before.items() if kind == "barrier added" or metric in own], random)
    after = {name: dict(own) for name, own in before.items()}
    if kind == "barrier added":
        path = f"{path.partition(SEPARATOR + 'MPI_')[0]}{SEPARATOR}MPI_Barrier"
        if path in before:
            after[path]["visits"] = scaled(before[path]["visits"], 2.0)
        else:
            after[path] = {"visits": ModelFunction(1.0)}
    elif kind == "message doubled":
        for name in ("bytes_sent", "bytes_received"):
            if name in after[path]:
                after[path][name] = scaled(after[path][name], 2.0)
    else:
        after[path][metric] = multiplied(after[path][metric], _FACTORS[kind])
    return Pair(kind, program, before, after, metric, path, growth_class(after[path][metric], PARAMETERS))


def side(program: Program) -> Side:
    """Return what a campaign that counts has of a program, models included."""
    names = tuple(_in_order(program))
    regions = tuple(
        Region(leaf, paradigm="mpi" if leaf.startswith("MPI_") else "compiler") for leaf in map(_leaf, names)
    )
    parents = [names.index(name.rpartition(SEPARATOR)[0]) if SEPARATOR in name else -1 for name in names]
    tree = CallTree(regions, np.arange(len(names)), np.array(parents))
    at = points()
    values = {}
    for metric in METRICS:
        counts = np.array([_counts(program.get(name, {}).get(metric), metric, at) for name in names])
        values[metric] = np.repeat(counts[..., None, None], len(AGGREGATES), axis=-1)
    table = Experiment(PARAMETERS, at, tree, values, {name: "bytes" if "bytes" in name else "occ" for name in METRICS})
    return Side("version", PARAMETERS, TARGET, model_experiment(table), table)


def _counts(function: ModelFunction | None, metric: str, at: Array) -> Array:
    """Return whole numbers of rounds; every call path has some basic blocks of its own."""
    rounds = np.zeros(len(at)) if function is None else np.floor(function.evaluate(at) + 1e-9)
    return rounds + _BLOCKS if metric == "basic_blocks" else rounds


def _leaf(name: str) -> str:
    return name.rpartition(SEPARATOR)[2]


def _in_order(program: Mapping[str, object]) -> list[str]:
    """Return all call paths and their callers, callers first."""
    everything = {
        SEPARATOR.join(name.split(SEPARATOR)[: end + 1]) for name in program for end in range(name.count(SEPARATOR) + 1)
    }
    return sorted(everything, key=lambda name: name.split(SEPARATOR))


def _choice(names: list[str], random: np.random.Generator) -> str:
    return names[int(random.integers(len(names)))]


def _generated(seed: int, number: int) -> Program:
    out: Program = {}
    for kernel in random_spec("versions", KERNELS, seed, KERNELS * number, VALUES).kernels:
        truth, path = Truth.of(kernel), f"main->{kernel.name}"
        out[path] = {"basic_blocks": truth.rounds}
        if kernel.operation is None:
            continue
        name = {"send": "MPI_Send", "receive": "MPI_Recv"}.get(kernel.operation, f"MPI_{kernel.operation.capitalize()}")
        moved = {"bytes_sent": truth.bytes_sent, "bytes_received": truth.bytes_received}
        counts = {
            metric: function for metric, function in moved.items() if function is not None and not function.is_zero
        }
        out[f"{path}->{communicator(kernel.name)}->{name}"] = {"visits": kernel.calls, **counts}
    return out


def _example(path: Path) -> Program:
    """Read what theory says of an example, for its ranks and its first other parameter; the others stay the same."""
    data = yaml.safe_load(path.read_text())
    parameters = list(data["parameters"])[:2]
    out: Program = {}
    for number, (name, metrics) in enumerate(data["kernels"].items()):
        own: dict[str, ModelFunction] = {}
        for metric, exponents in metrics.items():
            if metric not in METRICS:
                continue
            function = ModelFunction(float(8 * (number + 2)))
            for column, parameter in enumerate(parameters):
                exponent = exponents.get(parameter, 0)
                whole, log = exponent if isinstance(exponent, list) else (exponent, 0)
                if Fraction(whole) or log:
                    function = multiplied(function, power(column, Fraction(whole), int(log)))
            own[metric] = function
        out[f"main->{name}"] = own
    return out


def _same(kind: str, before: Program, random: np.random.Generator) -> Program:
    """Return the same work with another name for a function, or called by another one."""
    kernels = [name for name in before if not _leaf(name).startswith("MPI_")]
    path = _choice(kernels, random)
    if kind == "reformatted":
        return dict(reversed(before.items()))
    if kind == "renamed":
        other = f"{path}_v2"
    else:
        callers = [name for name in kernels if not name.startswith(path)] or ["main->setup"]
        other = f"{_choice(callers, random)}{SEPARATOR}{_leaf(path)}"
    below = f"{path}{SEPARATOR}"
    return {
        other if name == path else other + name[len(path) :] if name.startswith(below) else name: counts
        for name, counts in before.items()
    }
