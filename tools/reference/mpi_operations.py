"""The reference page of the intercepted MPI operations, from their table.

Written to standard output: ``python tools/reference/mpi_operations.py > docs/reference/mpi.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from buran.measure.toolchain.mpi_table import GROUPS, RULES, MpiOperation

_HEAD = """\
<!-- Generated from a table: python tools/reference/mpi_operations.py > docs/reference/mpi.md -->

# MPI operations

The embedded backend records these operations as regions of their own: visits, time, bytes and the sizes of
communicators. They are intercepted through MPI's profiling interface, whatever the filter says. What an MPI does not
have is left out, so that MPI 3.0 to 5.0 will do.

N is the size of the communicator, of the remote group for intercommunicators; P is the size of the own group; *me* is
the own rank; n is a count times the size of its data type. "In place" is what changes where a process gives
`MPI_IN_PLACE`. In rooted operations on intercommunicators, the processes in the root's group that are not the root
send and receive nothing.

- **Where bytes are booked.** At the operation itself, with these exceptions. What `Irecv` and its like receive is
  booked where the request completes (`Wait`, `Test`, ...), as it is only known there. Non-blocking and persistent
  collectives are booked where they complete, both directions. Persistent sends are booked by each `Start`.
- **What counts nothing.** `MPI_PROC_NULL`, cancelled receives, and operations that end with an error.
- **One-sided operations** have metrics of their own, `bytes_put` and `bytes_get`, which a profile has only if the
  program uses such operations.
- **The communicator's size** is added up over visits: divide by the visits for the mean. Operations that name no
  communicator (`Wait`, `Put`) add 0. `Start` adds that of its request, `Startall` the largest one.
- **Polls** are operations that programs repeat until something has happened. How often is a matter of time, so their
  visits are not the same in every run, nor are the basic blocks of what calls them. The profile's attribute
  `polling_regions` names the ones that a program uses, with their callers. Loops that wait for a variable in memory
  to change cannot be recognised.
- **Ours** marks rules where Score-P books no bytes. All other rules are Score-P's.
- MPICH does not set the status of `MPI_Isendrecv` and `MPI_Isendrecv_replace` (seen in 5.0.2): with MPICH nothing is
  booked for what they receive.

Operations that only ask or compute locally (`Comm_rank`, `Type_size`, `Pack`, groups, attributes) are not recorded,
nor are files, generalised requests and the start of further processes.
"""

_COLUMNS = ("operation", "sent", "received", "communicator", "role", "since", "")


def reference() -> str:
    """Return the page as Markdown."""
    parts = [_HEAD]
    for title, operations in GROUPS.items():
        rows = [_row(operation) for operation in operations]
        parts.append(f"## {title}\n\n{_table(rows)}\n")
    return "\n".join(parts)


def _row(operation: MpiOperation) -> tuple[str, ...]:
    rule = RULES[operation.rule]
    name = f"`MPI_{operation.name}`" + (", `_c`" if operation.has_large_variant else "")
    remarks = ("polls" if operation.polls else "", "" if operation.like_score_p else "ours")
    return (
        name,
        rule.says_sent,
        rule.says_received,
        "yes" if operation.comm else "",
        operation.role,
        operation.since,
        ", ".join(filter(None, remarks)),
    )


def _table(rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(_COLUMNS) + " |", "|" + "---|" * len(_COLUMNS)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


if __name__ == "__main__":
    print(reference(), end="")
