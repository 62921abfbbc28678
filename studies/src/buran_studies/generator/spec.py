"""What to generate: kernels with their complexities, written by hand or drawn at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from buran.campaign.document import read_yaml
from buran.campaign.mistakes import did_you_mean
from buran.errors import FormatError, UsageError
from buran.modeling.functions.powers import PowerLog, full_space
from buran.modeling.functions.terms import Array, Factor, ModelFunction, Term
from buran_studies.generator.complexity import parse_complexity

OPERATIONS = ("allgather", "allreduce", "barrier", "bcast", "gather", "reduce", "scatter", "send", "receive")
STYLES = ("sequential", "nested")
ARRAY_BYTES = 16 << 20
NOTHING, ONCE = ModelFunction(0.0), ModelFunction(1.0)
SPREADING = ("allgather", "gather", "scatter")  # a buffer holds the message of every rank
LARGEST = 1 << 40  # value of a parameter, as programs take it
_LEAST_ROUNDS, _LEAST_BYTES = 400, 256
_MOST_GROWTH, _MOST_BYTES_GROWTH = 2e4, 256.0
MOST_ROUNDS = 1 << 40
_MOST_CALLS = 16
POINTS: Mapping[str, tuple[int, ...]] = {"p": (2, 4, 6, 8, 12), "n": (4, 8, 16, 32, 64)}


def communicator(kernel: str) -> str:
    """Return the name of the function below a kernel that communicates.

    It has basic blocks of its own: a round for each call could not be told from rounding beside a kernel's loops.
    """
    return f"{kernel}_communication"


@dataclass(frozen=True)
class Kernel:
    """One function of a program.

    Attributes
    ----------
    name
        Of the C++ function.
    computation
        Rounds of its loops, all terms together.
    style
        ``sequential``: a loop for each term, one after the other; ``nested``: a term with several factors is a loop
        over the first factor's range with a loop inside.
    operation
        MPI operation it calls; None for none.
    message_bytes
        Argument of each call: bytes that a process contributes.
    calls
        Calls of the operation.
    array_operation
        ``add`` or ``multiply``.
    """

    name: str
    computation: ModelFunction
    style: str = "sequential"
    operation: str | None = None
    message_bytes: ModelFunction = NOTHING
    calls: ModelFunction = ONCE
    array_operation: str = "add"


@dataclass(frozen=True)
class Spec:
    """A program.

    Attributes
    ----------
    parameters
        Names; the first is the number of ranks.
    values
        Of each parameter, for the campaign file and for the check of sizes.
    array_bytes
        Size of each of the arrays that are sent and computed with.
    """

    name: str
    parameters: tuple[str, ...]
    values: tuple[tuple[int, ...], ...]
    kernels: tuple[Kernel, ...]
    array_bytes: int = ARRAY_BYTES

    @property
    def points(self) -> Array:
        """Shape (point, parameter): all combinations of values."""
        return np.array(list(product(*self.values)), dtype=np.float64)

    def check(self) -> None:
        """Refuse kernels whose loops or messages are too large at a point.

        Raises
        ------
        UsageError
            Naming the kernel and the point.
        """
        points = self.points
        for kernel in self.kernels:
            self._check_size(kernel, "computation", kernel.computation, points, MOST_ROUNDS, "rounds")
            if kernel.operation is None:
                continue
            sizes = kernel.message_bytes.evaluate(points) * _peers(kernel.operation, points)
            self._refuse(kernel, "bytes", sizes, points, self.array_bytes, "bytes, the size of the arrays")
            self._check_size(kernel, "calls", kernel.calls, points, MOST_ROUNDS, "calls")

    def _check_size(
        self, kernel: Kernel, key: str, function: ModelFunction, points: Array, most: float, unit: str
    ) -> None:
        self._refuse(kernel, key, function.evaluate(points), points, most, unit)

    def _refuse(self, kernel: Kernel, key: str, sizes: Array, points: Array, most: float, unit: str) -> None:
        worst = int(np.argmax(sizes))
        if not sizes[worst] <= most:
            at = ", ".join(f"{name}={value:g}" for name, value in zip(self.parameters, points[worst], strict=True))
            raise UsageError(
                f"the {key} of kernel {kernel.name} are too large",
                why=f"at {at} they are {sizes[worst]:.3g}; at most {most:.3g} {unit}",
                hint="take a smaller power, a factor below 1, smaller values or, for messages, a larger array_bytes",
            )


def read_spec(path: Path) -> Spec:
    """Read a program's description from YAML.

    Raises
    ------
    FormatError, UsageError
        If it is none, or describes no program that can run.
    """
    data = read_yaml(path).data
    top = _mapping(data, path, ["name", "parameters", "kernels", "array_bytes"], str(path))
    parameters = _mapping(top.get("parameters"), path, None, f"{path}, parameters")
    names, values = tuple(map(str, parameters)), []
    if not names:
        raise FormatError("a program needs parameters", where=path, hint="parameters: {p: [2, 4, 8], n: [8, 16]}")
    for name, given in parameters.items():
        if not isinstance(given, tuple) or not given or not all(type(v) is int and 0 < v <= LARGEST for v in given):
            text = "a parameter has a list of whole numbers from 1 to 2^40"
            raise FormatError(text, where=f"{path}, parameters.{name}")
        values.append(tuple(sorted(set(given))))
    entries = top.get("kernels")
    if not isinstance(entries, tuple) or not entries:
        raise FormatError("a program needs a list of kernels", where=f"{path}, kernels")
    size = top.get("array_bytes", ARRAY_BYTES)
    if type(size) is not int or not 4096 <= size <= 1 << 32:
        raise FormatError("array_bytes is a whole number from 4096 to 4 GiB", where=f"{path}, array_bytes")
    kernels = tuple(_kernel(entry, number, names, path) for number, entry in enumerate(entries))
    functions = [name for kernel in kernels for name in (kernel.name, communicator(kernel.name))]
    if len(set(functions)) < len(functions):
        raise FormatError("two kernels have the same name", where=f"{path}, kernels")
    name = str(top.get("name", path.stem))
    if not name.replace("-", "_").isidentifier():
        raise FormatError(f"a program cannot be called {name!r}", where=f"{path}, name")
    spec = Spec(name, names, tuple(values), kernels, size)
    spec.check()
    return spec


def _mapping(data: Any, path: Path, keys: Sequence[str] | None, where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise FormatError("a mapping is missing", where=where)
    for key in data:
        if keys is not None and key not in keys:
            hint = did_you_mean(str(key), keys) or f"known are {', '.join(keys)}"
            raise FormatError(f"unknown key {key!r}", where=where, hint=hint.strip())
    return data


def _kernel(entry: Any, number: int, parameters: tuple[str, ...], path: Path) -> Kernel:
    where = f"{path}, kernels.{number}"
    keys = ["name", "computation", "style", "operation", "bytes", "calls", "array_operation"]
    own = _mapping(entry, path, keys, where)
    name = str(own.get("name", f"kernel_{number:03d}"))
    if not name.isidentifier() or name == "main":
        raise FormatError(f"a function cannot be called {name!r}", where=where)
    for key, allowed in (("style", STYLES), ("operation", OPERATIONS), ("array_operation", ("add", "multiply"))):
        if key in own and own[key] not in allowed:
            raise FormatError(f"unknown {key} {own[key]!r}", where=where, hint=f"one of {', '.join(allowed)}")
    if "operation" not in own and ("bytes" in own or "calls" in own):
        raise FormatError("bytes and calls need an operation", where=where)

    def read(key: str, default: str) -> ModelFunction:
        return parse_complexity(own.get(key, default), parameters, f"{where}.{key}")

    return Kernel(
        name,
        read("computation", "1"),
        own.get("style", "sequential"),
        own.get("operation"),
        ModelFunction(0.0) if own.get("operation") in (None, "barrier") else read("bytes", "8"),
        read("calls", "1"),
        own.get("array_operation", "add"),
    )


def random_spec(
    name: str, functions: int, seed: int, first: int = 0, values: Mapping[str, Sequence[int]] = POINTS
) -> Spec:
    """Draw kernels: terms of x^i and log2(x)^j with the exponents of the noise-resilient priors paper (Eq. 2, 3).

    Drawn again is what would grow too much over the points: by more than 20000 in rounds of loops, or 256 in bytes of
    messages, and messages that do not fit into an array. Each kernel depends on the seed and its number alone.

    Parameters
    ----------
    functions
        How many.
    first
        Number of the first one.
    values
        By parameter, the number of ranks first.
    """
    if functions < 1:
        raise UsageError("at least one function must be generated", why=f"{functions} were asked for")
    parameters = tuple(values)
    empty = Spec(name, parameters, tuple(tuple(sorted(set(column))) for column in values.values()), ())
    points = empty.points
    kernels = tuple(
        _draw(f"kernel_{number:03d}", np.random.default_rng([seed, number]), points)
        for number in range(first, first + functions)
    )
    spec = replace(empty, kernels=kernels)
    spec.check()
    return spec


def _peers(operation: str | None, points: Array) -> Array:
    """Return how many messages a rank's buffer holds, shape (point,)."""
    return points[:, 0] if operation in SPREADING else np.ones(len(points))


def _draw(name: str, random: np.random.Generator, points: Array) -> Kernel:
    terms, style = _draw_terms(random, points, _MOST_GROWTH)
    computation = _sized(terms, points, _LEAST_ROUNDS, random)
    operation = OPERATIONS[int(random.integers(len(OPERATIONS)))]
    message = ModelFunction(0.0)
    if operation != "barrier":
        message = _sized(_draw_terms(random, points, _MOST_BYTES_GROWTH)[0][:1], points, _LEAST_BYTES, random)
        while (message.evaluate(points) * _peers(operation, points)).max() > ARRAY_BYTES:
            message = _sized(_draw_terms(random, points, _MOST_BYTES_GROWTH)[0][:1], points, _LEAST_BYTES, random)
    return Kernel(
        name,
        computation,
        style,
        operation,
        message,
        _draw_calls(random, points),
        ("add", "multiply")[int(random.integers(2))],
    )


def _draw_terms(random: np.random.Generator, points: Array, most: float) -> tuple[list[Term], str]:
    """Draw one term, two of different parameters, or a product; values stay above 0 and do not grow too much."""
    pairs = full_space().pairs
    parameters = [p for p in range(points.shape[1]) if len(np.unique(points[:, p])) > 2]
    while True:
        count = 1 if len(parameters) == 1 else int(random.integers(1, 3))
        chosen = sorted(random.choice(parameters, size=count, replace=False).tolist())
        factors = [Factor(p, PowerLog(*pairs[int(random.integers(len(pairs)))])) for p in chosen]
        style = STYLES[int(random.integers(2))]
        terms = [Term(tuple(factors))] if style == "nested" else [Term((factor,)) for factor in factors]
        values = [term.evaluate(points) for term in terms]
        if all(column.min() > 0 and column.max() <= most * column.min() for column in values):
            return terms, style


def _sized(terms: Sequence[Term], points: Array, least: int, random: np.random.Generator) -> ModelFunction:
    """Scale terms so that each is `least` to three times `least` at the smallest point."""
    sizes = [least * float(random.uniform(1, 3)) / float(term.evaluate(points).min()) for term in terms]
    order = sorted(range(len(terms)), key=lambda k: terms[k].growth_order, reverse=True)
    return ModelFunction(0.0, tuple(float(f"{sizes[k]:.6g}") for k in order), tuple(terms[k] for k in order))


def _draw_calls(random: np.random.Generator, points: Array) -> ModelFunction:
    """Draw a number of calls: a constant, or a term that is a whole number at all points."""
    if random.random() < 0.6:
        return ModelFunction(float(random.integers(1, 4)))
    whole = []
    for parameter in range(points.shape[1]):
        for pair in ((Fraction(1), 0), (Fraction(0), 1)):
            values = Factor(parameter, PowerLog(*pair)).evaluate(points)
            if (values == np.round(values)).all() and values.min() >= 1 and values.max() <= _MOST_CALLS:
                whole.append(Term((Factor(parameter, PowerLog(*pair)),)))
    if not whole:
        return ModelFunction(1.0)
    return ModelFunction(0.0, (1.0,), (whole[int(random.integers(len(whole)))],))
