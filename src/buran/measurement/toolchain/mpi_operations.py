"""The table of the MPI operations that are intercepted, and the C code that intercepts those that an MPI has.

The rows are in ``mpi_operations.toml``. `tools/reference/mpi_operations.py` turns them into the reference page, and the
reader of profiles takes its roles from here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from buran.errors import ToolError
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


NEWER_MPI = "install an MPI of the standard's version 3.0 or newer: apt install libopenmpi-dev, or: pip install mpich"


def declared_functions(header: str) -> dict[str, tuple[str, ...]]:
    """Return the functions that a preprocessed ``mpi.h`` declares, each with its parameters in C."""
    text = re.sub(r"^#.*$", "", header, flags=re.MULTILINE)
    text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", text)
    declarations = re.finditer(r"\bint\s+(P?MPI_\w+)\s*\(([^;{}]*)\)\s*;", text)
    return {match[1]: tuple(part.strip() for part in match[2].split(",")) for match in declarations}


def no_profiling_interface(where: str, why: str) -> ToolError:
    """Return the error for an MPI whose operations cannot be intercepted."""
    return ToolError(
        "this MPI has no profiling interface, so its operations cannot be recorded",
        where=where,
        why=why,
        hint="use an MPI that was built with its profiling interface",
    )


def wrappers_for(header: str, where: str, is_missing: Callable[[str], bool] = lambda name: False) -> str:
    """Return C code with a wrapper for every operation of the table that an MPI has.

    Parameters
    ----------
    header
        The MPI's ``mpi.h``, preprocessed.
    where
        The MPI's compiler wrapper, for messages.
    is_missing
        Tells functions that are declared but cannot be used: without a wrapper, programs that call them show it.

    Raises
    ------
    ToolError
        If the MPI does not offer the profiling interface, by which operations are intercepted.
    """
    declared = declared_functions(header)
    operations = [name for operation in OPERATIONS for name in names_of(operation)]
    if without := [name for name in operations if name in declared and f"P{name}" not in declared]:
        raise no_profiling_interface(where, f"its mpi.h declares {without[0]} but not P{without[0]}")
    if missing := [name for name in ("MPI_Send", "MPI_Mrecv", "MPI_Iallreduce") if name not in declared]:
        raise ToolError("this MPI is too old", where=where, why=f"it has no {missing[0]}", hint=NEWER_MPI)
    return "\n".join(_parts({name: given for name, given in declared.items() if not is_missing(name)})) + "\n"


def _parts(declared: Mapping[str, tuple[str, ...]]) -> Iterable[str]:
    for operation in OPERATIONS:
        for name in names_of(operation):
            if name not in declared:
                continue
            if operation.form == "own":
                yield f"#define BURAN_HAS_{name} 1"
            else:
                yield wrapper(operation, name, declared[name])


def wrapper(operation: MpiOperation, name: str, declared: tuple[str, ...]) -> str:
    """Return the wrapper of one function.

    Parameters
    ----------
    operation, name
        The row of the table, and the function: the operation's own or its variant for large counts.
    declared
        The function's parameters in this MPI's header, which may lack a ``const``.
    """
    rule = RULES[operation.rule]
    parameters = _as_declared(_typed(operation.parameters, large=name.endswith("_c")), declared)
    arguments = _names(parameters)
    lines = [
        f"int {name}({parameters}) {{",
        f"    BEGIN({name}, ({', '.join(arguments)}))",
        f"    GROUP({operation.comm or 'MPI_COMM_NULL'})",
        *_facts(rule, arguments),
        f"    uint64_t sent = {rule.sent}, received = {rule.received};",
    ]
    passed = ", ".join(arguments)
    if operation.form == "receive":
        if "message" in arguments:
            lines.append("    int nobody = *message == MPI_MESSAGE_NO_PROC;")
        passed = passed.removesuffix("status") + "used"
        lines.append("    MPI_Status own, *used = status == MPI_STATUS_IGNORE ? &own : status;")
    elif operation.form == "receive-start" and "message" in arguments:
        lines.append("    int nobody = *message == MPI_MESSAGE_NO_PROC;")
    lines += [f"    int result = P{name}({passed});", *_after(operation, arguments), "}", ""]
    return "\n".join(lines)


def _typed(parameters: str, *, large: bool) -> str:
    parameters = re.sub(r"\bCOUNT\b", "MPI_Count" if large else "int", parameters)
    return re.sub(r"\bDISPLACEMENT\b", "MPI_Aint" if large else "int", parameters)


def _as_declared(parameters: str, declared: tuple[str, ...]) -> str:
    ours = parameters.split(", ")
    if len(ours) != len(declared):
        return parameters
    pairs = zip(ours, declared, strict=True)
    return ", ".join(our if "const" in their else our.removeprefix("const ") for our, their in pairs)


def _names(parameters: str) -> list[str]:
    return [re.sub(r"\W*$", "", text.replace("[]", "")).split()[-1].lstrip("*") for text in parameters.split(",")]


def _facts(rule: ByteRule, arguments: list[str]) -> Iterable[str]:
    """Declare what the rule's expressions need beyond the group."""
    text = rule.sent + rule.received
    if "at_root" in text:
        yield "    ROOT(root)"
    if rule.in_place and rule.in_place in arguments:
        yield f"    uint64_t in_place = {rule.in_place} == MPI_IN_PLACE;"


def _after(operation: MpiOperation, arguments: list[str]) -> Iterable[str]:
    """Remember what is needed later, and book."""
    nobody = "nobody" if "message" in arguments else "source == MPI_PROC_NULL"
    booked = "sent, received"
    match operation.form:
        case "receive":
            yield f"    received = result == MPI_SUCCESS && !({nobody}) ? bytes_received_by(used) : 0;"
        case "start":
            yield "    forget(result, request);"
        case "receive-start":
            yield f"    if ({nobody})"
            yield "        forget(result, request);"
            yield "    else"
            receives = "ISENDRECV_TELLS" if operation.rule == "exchanges" else "1"
            yield f"        remember(result, request, (entry){{.use = ONCE, .receives = {receives}}});"
        case "collective-start" if operation.rule == "none":
            yield "    forget(result, request);"
        case "collective-start":
            yield "    remember(result, request, (entry){.use = ONCE, .sent = sent, .received = received});"
            booked = "0, 0"
        case "persistent":
            yield "    remember(result, request, (entry){.use = PERSISTENT, .comm_size = (uint32_t)N, .sent = sent,"
            yield "                                      .received = received});"
            booked = "0, 0"
        case "persistent-send":
            yield "    remember(result, request, (entry){.use = PERSISTENT, .comm_size = (uint32_t)N,"
            yield "                                      .sends_at_start = 1, .sent = sent, .received = received});"
            booked = "0, 0"
        case "persistent-receive":
            yield "    remember(result, request, (entry){.use = PERSISTENT, .comm_size = (uint32_t)N, .receives = 1});"
        case _:
            pass
    yield f"    return end(&this, result, {booked}, N);"
