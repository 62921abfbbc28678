"""The reference page of the intercepted MPI operations, from their table.

Written to standard output: ``python tools/reference/mpi_operations.py > docs/reference/mpi.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from buran.measurement.toolchain.mpi_operations import GROUPS, RULES, MpiOperation

_HEAD = """\
<!-- Generated from a table: python tools/reference/mpi_operations.py > docs/reference/mpi.md -->

# MPI operations

The embedded backend records these operations as regions of their own: visits, time, bytes and the sizes of
communicators. They are intercepted through MPI's profiling interface, regardless of the filter. MPI 3.0 to 5.0 are
supported; operations that an MPI does not have are left out.

N is the size of the communicator (of the remote group for intercommunicators), P the size of the own group, *me* the
own rank, n a count times the size of its data type. "In place" means `MPI_IN_PLACE`. In rooted operations on
intercommunicators, processes of the root's group other than the root send and receive nothing.

- **Bytes** are counted at the operation, except: receives of `Irecv` and similar operations where the request completes
  (`Wait`, `Test`, ...); non-blocking and persistent collectives where they complete; persistent sends at each `Start`.
- **Not counted**: `MPI_PROC_NULL`, cancelled receives, and operations that return an error.
- **One-sided operations** have the metrics `bytes_put` and `bytes_get`.
- **The communicator's size** is summed over visits. Operations without a communicator (`Wait`, `Put`) add 0; `Start`
  adds that of its request, `Startall` the largest one.
- **Polls** (‡) are repeated until something has happened. Their visits, and the basic blocks of their callers, differ
  from run to run; the profile's attribute `polling_regions` names both. Busy-waiting on a variable in memory is not
  recognised.
- **Rules** are Score-P's, except where it counts no bytes.
- MPICH 5.0.2 does not set the status of `MPI_Isendrecv` and `MPI_Isendrecv_replace`: no received bytes are counted.

Names have the prefix `MPI_`. An asterisk marks operations with a variant for large counts (`_c`), † our own rules, ‡
polls; a number is the first version of MPI with the operation. Local operations (`Comm_rank`, `Type_size`, `Pack`,
groups, attributes), files, generalised requests and the start of processes are not recorded.
"""

_COLUMNS = ("operations", "sent", "received", "communicator")


def reference() -> str:
    """Return the page as Markdown."""
    parts = [_HEAD]
    for title, operations in GROUPS.items():
        parts.append(f"## {title}\n\n{_table(_rows(operations))}\n")
    return "\n".join(parts)


def _rows(operations: Iterable[MpiOperation]) -> Iterator[tuple[str, ...]]:
    """Yield a row for all operations that are treated alike, in the order of the first one."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for operation in operations:
        alike.setdefault(_treatment(operation), []).append(_name(operation))
    for treatment, names in alike.items():
        yield (", ".join(names), *treatment)


def _name(operation: MpiOperation) -> str:
    marks = (operation.has_large_variant, not operation.like_score_p, operation.polls)
    signs = "".join(sign for sign, is_so in zip((r"\*", "†", "‡"), marks, strict=True) if is_so)
    return f"`{operation.name}`{signs} {operation.since}".rstrip()


def _treatment(operation: MpiOperation) -> tuple[str, ...]:
    rule = RULES[operation.rule]
    return rule.says_sent, rule.says_received, "yes" if operation.comm else ""


def _table(rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(_COLUMNS) + " |", "|" + "---|" * len(_COLUMNS)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


if __name__ == "__main__":
    print(reference(), end="")
