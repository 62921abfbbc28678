"""The one table of the MPI operations that are intercepted: what they look like and which bytes they move.

Its rows are in ``mpi_operations.toml``. `buran.measurement.toolchain.mpi_wrappers` turns them into C,
`tools/reference/mpi_operations.py` into the reference page, and the reader of profiles takes its roles from here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from buran.files import JsonObject

TABLE = Path(__file__).with_name("mpi_operations.toml")

# call: what it moves is known before; receive: its status tells. The others make a request. start: it is booked at once
# and nothing is left to do; receive-start: its status will tell; collective-start: it is booked where it completes.
# Persistent requests: persistent-send is booked by each start; persistent-receive by each completion, from its status;
# persistent by each completion, what is known before. own: written by hand in native/mpi.c.
Form = Literal[
    "call",
    "receive",
    "start",
    "receive-start",
    "collective-start",
    "persistent-send",
    "persistent-receive",
    "persistent",
    "own",
]


@dataclass(frozen=True)
class ByteRule:
    """What an operation sends and receives, as C and as text.

    Attributes
    ----------
    sent, received
        C expressions of type ``uint64_t``; the head of the rules in the table says what they may name.
    says_sent, says_received
        The same for readers. n is a count times the size of its data type; "in place" is what changes with it.
    in_place
        The parameter that may be ``MPI_IN_PLACE``.
    """

    sent: str = "0"
    received: str = "0"
    says_sent: str = "0"
    says_received: str = "0"
    in_place: str = ""


@dataclass(frozen=True)
class MpiOperation:
    """One intercepted function.

    Attributes
    ----------
    name
        Without ``MPI_``.
    parameters
        In C. COUNT is ``int``, and ``MPI_Count`` in the variant ``_c``; DISPLACEMENT is ``int`` and ``MPI_Aint``.
    form
        How its bytes become known.
    rule
        Key of `RULES`.
    comm
        C expression of its communicator; empty where it names none.
    role
        Score-P's role of the region.
    since
        Version of MPI that brought it, if not 3.0 or earlier.
    polls
        Programs call it in a loop until something has happened: how often is chance.
    like_score_p
        False if Score-P books no bytes here and the rule is our own.
    """

    name: str
    parameters: str
    form: Form = "call"
    rule: str = "none"
    comm: str = ""
    role: str = "function"
    since: str = ""
    polls: bool = False
    like_score_p: bool = True

    @property
    def has_large_variant(self) -> bool:
        """Whether MPI 4 has it with ``_c`` for large counts."""
        return bool(re.search(r"\b(COUNT|DISPLACEMENT)\b", self.parameters))


def _read_operations(table: JsonObject) -> dict[str, tuple[MpiOperation, ...]]:
    groups: dict[str, tuple[MpiOperation, ...]] = {}
    for section in table["operations"]:
        shared = {key: value for key, value in section.items() if key not in ("group", "rows")}
        for row in section["rows"]:
            keys = {**shared, **row}
            names, variants = keys.pop("names"), keys.pop("variants", "")
            keys["parameters"] = keys.get("parameters", "").format_map(table["phrases"])
            made = [each for name in names.split() for each in _with_variants(MpiOperation(name, **keys), variants)]
            groups[section["group"]] = (*groups.get(section["group"], ()), *made)
    return groups


def _with_variants(operation: MpiOperation, variants: str) -> Iterator[MpiOperation]:
    yield operation
    if variants == "collective":
        yield _with_request(operation, "I", "collective-start")
        yield replace(
            operation,
            name=f"{operation.name}_init",
            parameters=f"{operation.parameters}, MPI_Info info, MPI_Request *request",
            form="persistent",
            since="4.0",
            like_score_p=operation.rule == "none",
        )
    elif variants == "request":
        yield _with_request(operation, "R", "start")


def _with_request(operation: MpiOperation, letter: str, form: Form) -> MpiOperation:
    """Return the variant that makes a request: `Ibcast` of `Bcast`, `Rput` of `Put`."""
    name = letter + operation.name[0].lower() + operation.name[1:]
    return replace(operation, name=name, parameters=f"{operation.parameters}, MPI_Request *request", form=form)


_TABLE = tomllib.loads(TABLE.read_text(encoding="utf-8"))
RULES: dict[str, ByteRule] = {
    name: ByteRule(**{key: text.format_map(_TABLE["phrases"]) for key, text in keys.items()})
    for name, keys in _TABLE["rules"].items()
}
GROUPS: dict[str, tuple[MpiOperation, ...]] = _read_operations(_TABLE)
OPERATIONS: tuple[MpiOperation, ...] = tuple(operation for group in GROUPS.values() for operation in group)


def names_of(operation: MpiOperation) -> tuple[str, ...]:
    """Return the names of a row's regions: the function, and its variant for large counts if it has one."""
    name = f"MPI_{operation.name}"
    return (name, f"{name}_c") if operation.has_large_variant else (name,)


# What the reader of profiles needs, by the region's name.
ROLES: dict[str, str] = {name: operation.role for operation in OPERATIONS for name in names_of(operation)}
POLLING: frozenset[str] = frozenset(name for operation in OPERATIONS if operation.polls for name in names_of(operation))
ONE_SIDED: frozenset[str] = frozenset(name for name, role in ROLES.items() if role in ("rma", "atomic"))
