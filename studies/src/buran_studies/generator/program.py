"""Writing generated programs: sources, build files, campaign and ground truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from buran.errors import UsageError
from buran.files import write_json, write_text
from buran.modeling.functions.terms import Factor, ModelFunction, Term, added, multiplied, power
from buran.modeling.pmnf.text import format_function, growth_class
from buran.modeling.priors.communication import operation_of
from buran.modeling.priors.prior import Prior, communication_prior
from buran_studies.generator.spec import MOST_ROUNDS, SPREADING, Kernel, Spec, communicator

KERNELS_PER_FILE = 25
SCHEMA = "buran-truth/1"
_MPI = {
    name: f"MPI_{name.capitalize()}"
    for name in ("allgather", "allreduce", "barrier", "bcast", "gather", "reduce", "scatter", "send")
}
_MPI["receive"] = "MPI_Recv"
_BODY = {
    "allgather": "MPI_Allgather(frame.send, bytes, MPI_BYTE, frame.receive, bytes, MPI_BYTE, MPI_COMM_WORLD);",
    "allreduce": "MPI_Allreduce(frame.send, frame.receive, bytes, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);",
    "barrier": "MPI_Barrier(MPI_COMM_WORLD);",
    "bcast": "MPI_Bcast(frame.send, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);",
    "gather": "MPI_Gather(frame.send, bytes, MPI_BYTE, frame.receive, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);",
    "reduce": "MPI_Reduce(frame.send, frame.receive, bytes, MPI_BYTE, MPI_BOR, 0, MPI_COMM_WORLD);",
    "scatter": "MPI_Scatter(frame.send, bytes, MPI_BYTE, frame.receive, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);",
}
# A ring: ranks with even numbers send first, so that nobody waits for ever. One rank alone has no partner.
_RING = """\
const int to = frame.ranks > 1 ? (frame.rank + 1) % frame.ranks : MPI_PROC_NULL;
const int from = frame.ranks > 1 ? (frame.rank + frame.ranks - 1) % frame.ranks : MPI_PROC_NULL;
if (frame.rank % 2 == 0) {
    MPI_Send(frame.send, bytes, MPI_BYTE, to, 0, MPI_COMM_WORLD);
}
MPI_Recv(frame.receive, bytes, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
if (frame.rank % 2 == 1) {
    MPI_Send(frame.send, bytes, MPI_BYTE, to, 0, MPI_COMM_WORLD);
}"""


@dataclass(frozen=True)
class Truth:
    """What is known of a kernel before it runs.

    Attributes
    ----------
    kernel
        The kernel.
    rounds
        Of its loops: basic blocks grow as this.
    bytes_sent, bytes_received
        Of its operation, means over ranks and all calls together; None without an operation.
    prior
        Structure of the operation's run time; None without an operation.
    """

    kernel: Kernel
    rounds: ModelFunction
    bytes_sent: ModelFunction | None
    bytes_received: ModelFunction | None
    prior: Prior | None

    @classmethod
    def of(cls, kernel: Kernel) -> Truth:
        """Derive what follows from a kernel's description."""
        if kernel.operation is None:
            return cls(kernel, kernel.computation, None, None, None)
        ranks = power(0, 1)
        moved = multiplied(kernel.calls, kernel.message_bytes)
        everybody = multiplied(moved, ranks)
        sent, received = {
            "allgather": (everybody, everybody),
            "allreduce": (everybody, everybody),
            "barrier": (ModelFunction(0.0), ModelFunction(0.0)),
            "reduce": (moved, moved),
        }.get(kernel.operation, (moved, moved))
        name = _MPI[kernel.operation]
        operation = operation_of(name)
        assert operation is not None
        prior = communication_prior(operation, name=name, visits=kernel.calls, size=ranks, sent=sent, received=received)
        return cls(kernel, kernel.computation, sent, received, prior)

    @property
    def operation(self) -> str | None:
        """MPI's name of the operation."""
        return None if self.kernel.operation is None else _MPI[self.kernel.operation]

    @property
    def communicator(self) -> str:
        """Name of the function below the kernel that calls the operation."""
        return communicator(self.kernel.name)

    def to_json(self, parameters: tuple[str, ...]) -> dict[str, Any]:
        """Return what truth.json says of the kernel."""

        def said(function: ModelFunction) -> dict[str, Any]:
            return {"text": format_function(function, parameters), **function.to_json()}

        out: dict[str, Any] = {
            "kernel": self.kernel.name,
            "basic_blocks": {"grows_like": growth_class(self.rounds, parameters), "rounds": said(self.rounds)},
            "time": {"grows_like": growth_class(self.rounds, parameters)},
        }
        if self.prior is not None and self.bytes_sent is not None and self.bytes_received is not None:
            out["communication"] = {
                "function": self.communicator,
                "operation": self.operation,
                "visits": said(self.kernel.calls),
                "bytes_sent": said(self.bytes_sent),
                "bytes_received": said(self.bytes_received),
                "time": {
                    "prior": self.prior.text(parameters),
                    "grows_like": growth_class(added(self.prior.functions), parameters),
                    "source": self.prior.source,
                },
            }
        return out


def write_program(spec: Spec, folder: Path) -> list[Path]:
    """Write a program into a new or empty folder; return the files.

    Raises
    ------
    UsageError
        If there are files already.
    """
    spec.check()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError("existing files are not overwritten", where=folder, hint="name another folder")
    parts = [spec.kernels[i : i + KERNELS_PER_FILE] for i in range(0, len(spec.kernels), KERNELS_PER_FILE)]
    common: dict[str, Any] = {
        "name": spec.name,
        "parameters": spec.parameters,
        "values": spec.values,
        "array_bytes": spec.array_bytes,
        "most_rounds": f"{float(MOST_ROUNDS):.1f}",
        "files": [f"kernels_{number:02d}.cpp" for number in range(len(parts))],
    }
    texts = {
        "frame.hpp": _render("frame.hpp.j2", common),
        "main.cpp": _render("main.cpp.j2", {**common, "kernels": spec.kernels}),
        "CMakeLists.txt": _render("CMakeLists.txt.j2", common),
        "campaign.yaml": _render("campaign.yaml.j2", common),
    }
    for name, part in zip(common["files"], parts, strict=True):
        kernels = [_kernel(kernel, spec) for kernel in part]
        texts[name] = _render("kernels.cpp.j2", {**common, "kernels": kernels})
    for name, text in texts.items():
        write_text(folder / name, text)
    truths = [Truth.of(kernel).to_json(spec.parameters) for kernel in spec.kernels]
    write_json(folder / "truth.json", {"schema": SCHEMA, "parameters": list(spec.parameters), "kernels": truths})
    return [folder / name for name in (*texts, "truth.json")]


def split(spec: Spec, per_program: int) -> list[Spec]:
    """Distribute the kernels of a description over programs."""
    if per_program < 1:
        raise UsageError("a program has at least one function", why=f"{per_program} were asked for")
    parts = [spec.kernels[i : i + per_program] for i in range(0, len(spec.kernels), per_program)]
    if len(parts) == 1:
        return [spec]
    return [replace(spec, name=f"{spec.name}_{number:03d}", kernels=part) for number, part in enumerate(parts)]


@cache
def _templates() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("buran_studies.generator"),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # C++ is no HTML
    )


def _render(template: str, values: Mapping[str, Any]) -> str:
    return str(_templates().get_template(template).render(values))


def _kernel(kernel: Kernel, spec: Spec) -> dict[str, Any]:
    names = spec.parameters
    body = _RING if kernel.operation in ("send", "receive") else _BODY.get(kernel.operation or "", "")
    return {
        "name": kernel.name,
        "communicator": communicator(kernel.name),
        "computation_text": format_function(kernel.computation, names),
        "operation": _MPI.get(kernel.operation or ""),
        "bytes_text": format_function(kernel.message_bytes, names),
        "calls_text": format_function(kernel.calls, names),
        "bytes": _expression(kernel.message_bytes, names),
        "calls": _expression(kernel.calls, names),
        "peers": " / frame.ranks" if kernel.operation in SPREADING else "",
        "loops": [_loop(c, term, kernel.style, names) for c, term in _parts(kernel.computation)],
        "arithmetic": "a[i & mask] + b[i & mask]"
        if kernel.array_operation == "add"
        else "a[i & mask] * 0.999 + b[i & mask]",
        "communication": "\n".join(f"        {line}" for line in body.splitlines()),
    }


def _parts(function: ModelFunction) -> list[tuple[float, Term | None]]:
    parts: list[tuple[float, Term | None]] = list(zip(function.coefficients, function.terms, strict=True))
    return parts + ([(function.constant, None)] if function.constant else [])


def _loop(coefficient: float, term: Term | None, style: str, names: tuple[str, ...]) -> dict[str, str]:
    own = ModelFunction(coefficient) if term is None else ModelFunction(0.0, (coefficient,), (term,))
    nested = style == "nested" and term is not None and len(term.factors) > 1
    outer = _factor(term.factors[0], names) if nested and term is not None else ""
    return {"rounds": _expression(own, names), "outer": outer}


def _expression(function: ModelFunction, names: tuple[str, ...]) -> str:
    """Write a function in C++."""
    parts = []
    for coefficient, term in _parts(function):
        factors = [repr(float(coefficient))]
        if term is not None:
            factors += [_factor(factor, names) for factor in term.factors]
        parts.append(" * ".join(factors))
    return " + ".join(parts) or "0.0"


def _factor(factor: Factor, names: tuple[str, ...]) -> str:
    x = f"frame.{names[factor.parameter]}"
    parts = []
    power, log = factor.basis.lead  # kernels are drawn from powers and logarithms alone
    if power:
        parts.append(f"std::pow({x}, {float(power)!r})")
    if log:
        parts.append(f"std::pow(std::log2({x}), {float(log)!r})")
    return " * ".join(parts)
