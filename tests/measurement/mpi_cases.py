"""What must be recorded of every MPI operation, by formula, and the program that performs them.

A case is a stretch of C and what it must leave behind. In its code and its names ``@`` stands for nothing and for
``_c`` (then COUNT and AT are MPI_Count and MPI_Aint, else int), so one case tests both variants. `program` writes the
cases that an MPI has the functions for as functions of one C program; so each has call paths of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

N, INT = 100, 4
B = N * INT  # bytes of a block

# visits (None: at least one, chance decides), bytes sent, bytes received, summed communicator size
Row = tuple[int | None, int, int, int]
Expectation = Callable[[int, int], Mapping[str, Row]]
Bytes = Callable[[int, int], tuple[int, int]]


@dataclass(frozen=True)
class Case:
    """Code of one function of the program, and by operation what `me` of `p` ranks must record below it."""

    name: str
    code: str
    expected: Expectation
    least_ranks: int = 1

    @property
    def functions(self) -> set[str]:
        """Names of the MPI functions that it calls."""
        return set(re.findall(r"\bMPI_[A-Z][a-z]\w*(?=\()", self.code))

    def variants(self) -> Iterable[Case]:
        """Return the case for int and, if there is one, for MPI_Count."""
        kinds = (("", "int", "int"), ("_c", "MPI_Count", "MPI_Aint"))
        for suffix, count, at in kinds if "@" in self.code else kinds[:1]:
            code = self.code.replace("@", suffix).replace("COUNT", count).replace("AT ", f"{at} ")
            yield Case(self.name + suffix, code, _with_suffix(self.expected, suffix), self.least_ranks)


def _with_suffix(expected: Expectation, suffix: str) -> Expectation:
    return lambda p, me: {name.replace("@", suffix): row for name, row in expected(p, me).items()}


WAIT = "MPI_Wait(&q, MPI_STATUS_IGNORE);"


# ---- point to point: everybody sends 7 numbers to the next, who has room for N


def _p2p(isendrecv_tells: bool) -> Iterable[Case]:
    irecv = "MPI_Request q; MPI_Irecv@(b, N, MPI_INT, previous, 1, world, &q); MPI_Barrier(world);"
    to_next = "a, 7, MPI_INT, next, 1, world"
    got = 7 * INT
    for mode in ("", "s", "b", "r"):
        name = f"{mode.upper()}send" if mode else "Send"
        yield Case(
            name,
            f"{irecv} MPI_{name}@({to_next}); {WAIT}",
            lambda p, me, name=name: {
                "Irecv@": (1, 0, 0, p),
                "Barrier": (1, 0, 0, p),
                f"{name}@": (1, got, 0, p),
                "Wait": (1, 0, got, 0),
            },
        )
        yield Case(
            f"I{mode}send",
            f"{irecv} MPI_Request w; MPI_I{mode}send@({to_next}, &w); MPI_Wait(&w, MPI_STATUS_IGNORE); {WAIT}",
            lambda p, me, mode=mode: {
                "Irecv@": (1, 0, 0, p),
                "Barrier": (1, 0, 0, p),
                f"I{mode}send@": (1, got, 0, p),
                "Wait": (2, 0, got, 0),
            },
        )
        yield Case(
            f"{name}_init",
            f"MPI_Request w[2]; MPI_{name}_init@({to_next}, &w[1]);"
            "MPI_Recv_init@(b, N, MPI_INT, previous, 1, world, &w[0]);"
            "for (int i = 0; i < 3; i++) { MPI_Start(&w[0]); MPI_Barrier(world); MPI_Start(&w[1]);"
            "MPI_Waitall(2, w, MPI_STATUSES_IGNORE); } MPI_Request_free(&w[0]); MPI_Request_free(&w[1]);",
            lambda p, me, name=name: {
                f"{name}_init@": (1, 0, 0, p),
                "Recv_init@": (1, 0, 0, p),
                "Barrier": (3, 0, 0, 3 * p),
                "Start": (6, 3 * got, 0, 6 * p),
                "Waitall": (3, 0, 3 * got, 0),
                "Request_free": (2, 0, 0, 0),
            },
        )
    isend = f"MPI_Request q; MPI_Isend({to_next}, &q);"
    sent = {"Isend": lambda p: (1, got, 0, p), "Wait": lambda p: (1, 0, 0, 0)}

    def after_isend(**rows: Callable[[int], Row]) -> Expectation:
        return lambda p, me: {name.replace("_at", "@"): row(p) for name, row in {**sent, **rows}.items()}

    source = "N, MPI_INT, previous, 1, world"

    def one_receive(p: int) -> Row:
        return (1, 0, got, p)

    yield Case("Recv", f"{isend} MPI_Recv@(b, {source}, MPI_STATUS_IGNORE); {WAIT}", after_isend(Recv_at=one_receive))
    yield Case(
        "Probe",
        f"{isend} MPI_Status s; MPI_Probe(previous, 1, world, &s); MPI_Recv(b, {source}, &s); {WAIT}",
        after_isend(Probe=lambda p: (1, 0, 0, p), Recv=one_receive),
    )
    yield Case(
        "Mprobe",
        f"{isend} MPI_Message m; MPI_Mprobe(previous, 1, world, &m, MPI_STATUS_IGNORE);"
        f"MPI_Mrecv@(b, N, MPI_INT, &m, MPI_STATUS_IGNORE); {WAIT}",
        after_isend(Mprobe=lambda p: (1, 0, 0, p), Mrecv_at=lambda p: (1, 0, got, 0)),
    )
    yield Case(
        "Imrecv",
        f"{isend} MPI_Message m; MPI_Request r; MPI_Mprobe(previous, 1, world, &m, MPI_STATUS_IGNORE);"
        f"MPI_Imrecv@(b, N, MPI_INT, &m, &r); MPI_Wait(&r, MPI_STATUS_IGNORE); {WAIT}",
        after_isend(Mprobe=lambda p: (1, 0, 0, p), Imrecv_at=lambda p: (1, 0, 0, 0), Wait=lambda p: (2, 0, got, 0)),
    )
    for name, arguments, end in (
        ("Iprobe", "&flag, MPI_STATUS_IGNORE", f"MPI_Recv(b, {source}, MPI_STATUS_IGNORE);"),
        ("Improbe", "&flag, &m, MPI_STATUS_IGNORE", "MPI_Mrecv(b, N, MPI_INT, &m, MPI_STATUS_IGNORE);"),
    ):
        yield Case(
            name,
            f"{isend} int flag = 0; MPI_Message m; (void)m;"
            f"while (!flag) MPI_{name}(previous, 1, world, {arguments}); {end} {WAIT}",
            lambda p, me, name=name: {
                "Isend": (1, got, 0, p),
                name: (None, 0, 0, 0),
                **({"Recv": (1, 0, got, p)} if name == "Iprobe" else {"Mrecv": (1, 0, got, 0)}),
                "Wait": (1, 0, 0, 0),
            },
        )
    exchange = "a, 7, MPI_INT, next, 1, b, N, MPI_INT, previous, 1, world"
    replace = "a, 7, MPI_INT, next, 1, previous, 1, world"
    for name, arguments in (("sendrecv", exchange), ("sendrecv_replace", replace)):
        yield Case(
            name,
            f"MPI_S{name[1:]}@({arguments}, MPI_STATUS_IGNORE);",
            lambda p, me, name=name: {f"S{name[1:]}@": (1, got, got, p)},
        )
        yield Case(
            f"i{name}",
            f"MPI_Request q; MPI_I{name}@({arguments}, &q); {WAIT}",
            lambda p, me, name=name: {f"I{name}@": (1, got, 0, p), "Wait": (1, 0, got * isendrecv_tells, 0)},
        )
    nobody = "MPI_PROC_NULL, 1, world"
    yield Case(
        "nobody",
        f"MPI_Request q[3]; MPI_Send(a, 7, MPI_INT, {nobody}); MPI_Recv(b, N, MPI_INT, {nobody}, MPI_STATUS_IGNORE);"
        f"MPI_Isend(a, 7, MPI_INT, {nobody}, &q[0]); MPI_Irecv(b, N, MPI_INT, {nobody}, &q[1]);"
        "q[2] = MPI_REQUEST_NULL; MPI_Waitall(3, q, MPI_STATUSES_IGNORE);",
        lambda p, me: {
            "Send": (1, 0, 0, p),
            "Recv": (1, 0, 0, p),
            "Isend": (1, 0, 0, p),
            "Irecv": (1, 0, 0, p),
            "Waitall": (1, 0, 0, 0),
        },
    )
    yield Case(
        "derived_types",
        "MPI_Datatype t; MPI_Type_vector(5, 2, 4, MPI_INT, &t); MPI_Type_commit(&t);"
        "MPI_Sendrecv(a, 3, t, next, 1, b, N, MPI_INT, previous, 1, world, MPI_STATUS_IGNORE); MPI_Type_free(&t);",
        lambda p, me: {"Sendrecv": (1, 30 * INT, 30 * INT, p)},
    )
    yield Case(
        "partitioned",
        "MPI_Request q[2]; MPI_Psend_init(a, 4, 5, MPI_INT, next, 9, world, MPI_INFO_NULL, &q[0]);"
        "MPI_Precv_init(b, 4, 5, MPI_INT, previous, 9, world, MPI_INFO_NULL, &q[1]); int list[1] = {3}, flag = 0;"
        "for (int i = 0; i < 2; i++) { MPI_Startall(2, q); MPI_Pready(0, q[0]); MPI_Pready_range(1, 2, q[0]);"
        "MPI_Pready_list(1, list, q[0]); for (flag = 0; !flag;) MPI_Parrived(q[1], 0, &flag);"
        "MPI_Waitall(2, q, MPI_STATUSES_IGNORE); }"
        "MPI_Request_free(&q[0]); MPI_Request_free(&q[1]);",
        lambda p, me: {
            "Psend_init": (1, 0, 0, p),
            "Precv_init": (1, 0, 0, p),
            "Startall": (2, 2 * 20 * INT, 0, 2 * p),
            "Pready": (2, 0, 0, 0),
            "Pready_range": (2, 0, 0, 0),
            "Pready_list": (2, 0, 0, 0),
            "Parrived": (None, 0, 0, 0),
            "Waitall": (2, 0, 2 * 20 * INT, 0),
            "Request_free": (2, 0, 0, 0),
        },
    )


# ---- completion: three receives of 1, 2 and 3 numbers, beside a send and a null request


def _completion() -> Iterable[Case]:
    posted = (
        "enum { R = 5 }; MPI_Request q[R]; MPI_Status s[R]; int flag = 0, done = 0, some = 0, which, list[R];"
        "(void)s, (void)flag, (void)done, (void)some, (void)which, (void)list;"
        "for (int i = 0; i < 3; i++) MPI_Irecv(b + i * N, N, MPI_INT, previous, i, world, &q[i]);"
        "q[3] = MPI_REQUEST_NULL; MPI_Isend(a, 9, MPI_INT, MPI_PROC_NULL, 1, world, &q[4]);"
        "for (int i = 0; i < 3; i++) MPI_Send(a, i + 1, MPI_INT, next, i, world);"
    )
    got = 6 * INT

    def rows(name: str, visits: int | None) -> Expectation:
        return lambda p, me: {
            "Irecv": (3, 0, 0, 3 * p),
            "Isend": (1, 0, 0, p),
            "Send": (3, got, 0, 3 * p),
            name: (visits, 0, got, 0),
        }

    for label, statuses in (("", "s"), ("_ignored", "MPI_STATUSES_IGNORE")):
        one = "&s[0]" if statuses == "s" else "MPI_STATUS_IGNORE"
        for name, code, visits in (
            ("Wait", f"for (int i = 0; i < R; i++) MPI_Wait(&q[i], {one});", 5),
            ("Waitall", f"MPI_Waitall(R, q, {statuses});", 1),
            ("Waitany", f"for (int i = 0; i < 5; i++) MPI_Waitany(R, q, &which, {one});", 5),
            (
                "Waitsome",
                f"while (done != MPI_UNDEFINED) MPI_Waitsome(R, q, &done, list, {statuses});",
                None,
            ),
            ("Test", f"for (int i = 0; i < R; i++) for (flag = 0; !flag;) MPI_Test(&q[i], &flag, {one});", None),
            ("Testall", f"while (!flag) MPI_Testall(R, q, &flag, {statuses});", None),
            (
                "Testany",
                f"for (which = 0; which != MPI_UNDEFINED || !flag;) MPI_Testany(R, q, &which, &flag, {one});",
                None,
            ),
            ("Testsome", f"while (done != MPI_UNDEFINED) MPI_Testsome(R, q, &done, list, {statuses});", None),
        ):
            yield Case(f"{name}{label}", posted + code, rows(name, visits))
    for name, arguments in (
        ("Request_get_status", "q[0], &flag, MPI_STATUS_IGNORE"),
        ("Request_get_status_all", "R, q, &flag, MPI_STATUSES_IGNORE"),
        ("Request_get_status_any", "R, q, &which, &flag, MPI_STATUS_IGNORE"),
        ("Request_get_status_some", "R, q, &some, list, MPI_STATUSES_IGNORE"),
    ):
        yield Case(
            name,
            f"{posted} while (!flag && !some) MPI_{name}({arguments}); MPI_Waitall(R, q, s);",
            lambda p, me, name=name: {**rows("Waitall", 1)(p, me), name: (None, 0, 0, 0)},
        )
    yield Case(
        "Cancel",
        "MPI_Request q; MPI_Irecv(b, N, MPI_INT, previous, 77, world, &q); MPI_Cancel(&q);" + WAIT,
        lambda p, me: {"Irecv": (1, 0, 0, p), "Cancel": (1, 0, 0, 0), "Wait": (1, 0, 0, 0)},
    )
    yield Case(
        "many",  # the table of requests grows, and finds what is left in it
        "enum { R = 700 }; static MPI_Request q[R]; for (int k = 0; k < 3; k++) {"
        "for (int i = 0; i < R; i++) MPI_Irecv(b + i % N, 1, MPI_INT, previous, i, world, &q[i]);"
        "for (int i = 0; i < R; i++) MPI_Send(a, 1, MPI_INT, next, i, world);"
        "for (int i = 0; i < R; i += 7) MPI_Wait(&q[i], MPI_STATUS_IGNORE);"
        "MPI_Waitall(R, q, MPI_STATUSES_IGNORE); }",
        lambda p, me: {
            "Irecv": (2100, 0, 0, 2100 * p),
            "Send": (2100, 2100 * INT, 0, 2100 * p),
            "Wait": (300, 0, 300 * INT, 0),
            "Waitall": (3, 0, 1800 * INT, 0),
        },
    )
    # Where all ranks are one, operations are complete when they begin, and some MPIs give them all the same handle.
    yield Case(
        "one_handle",
        "MPI_Request q[6]; for (int i = 0; i < 3; i++) MPI_Iallreduce(a, b + i * N, i + 1, MPI_INT, MPI_SUM,"
        "MPI_COMM_SELF, &q[i]); for (int i = 3; i < 6; i++) MPI_Isend(a, 1, MPI_INT, MPI_PROC_NULL, 1, world, &q[i]);"
        "MPI_Waitall(6, q, MPI_STATUSES_IGNORE);",
        lambda p, me: {
            "Iallreduce": (3, 0, 0, 3),
            "Isend": (3, 0, 0, 3 * p),
            "Waitall": (1, 6 * INT, 6 * INT, 0),
        },
    )


# ---- collectives


@dataclass(frozen=True)
class Collective:
    """Arguments and bytes of one collective; the root is the last rank, `n` and `m` are counts of rank i: i + 1."""

    name: str
    arguments: str
    bytes: Bytes
    comm: str = "world"
    label: str = ""
    partners: Callable[[int, int], int] = lambda p, me: p
    least_ranks: int = 1


def _sum(p: int) -> int:
    return sum(range(1, p + 1)) * INT


def _root(p: int, me: int) -> bool:
    return me == p - 1


def _collectives() -> Iterable[Collective]:
    one, other, each = "a, N, MPI_INT", "b, N, MPI_INT", "b, n, at, MPI_INT"
    reduction = "a, b, N, MPI_INT, MPI_SUM"

    def rooted(p: int, me: int) -> tuple[int, int]:
        return (B, p * B if _root(p, me) else 0)

    def spread(p: int, me: int) -> tuple[int, int]:
        return (p * B if _root(p, me) else 0, B)

    def everybody(p: int, me: int) -> tuple[int, int]:
        return (p * B, p * B)

    def own(me: int) -> int:
        return (me + 1) * INT

    def both(p: int, me: int) -> int:
        return sum(me + q + 1 for q in range(p)) * INT

    yield Collective("Barrier", "", lambda p, me: (0, 0))
    yield Collective("Bcast", f"{one}, root", spread)
    yield Collective("Scatter", f"{one}, {other}, root", spread)
    yield Collective(
        "Scatterv",
        "a, n, at, MPI_INT, b, rank + 1, MPI_INT, root",
        lambda p, me: (_sum(p) if _root(p, me) else 0, own(me)),
    )
    yield Collective("Reduce", f"{reduction}, root", rooted)
    yield Collective("Gather", f"{one}, {other}, root", rooted)
    yield Collective(
        "Gatherv", f"a, rank + 1, MPI_INT, {each}, root", lambda p, me: (own(me), _sum(p) if _root(p, me) else 0)
    )
    yield Collective("Allreduce", reduction, everybody)
    yield Collective("Allgather", f"{one}, {other}", everybody)
    yield Collective("Allgatherv", f"a, rank + 1, MPI_INT, {each}", lambda p, me: (p * own(me), _sum(p)))
    yield Collective("Alltoall", f"{one}, {other}", everybody)
    yield Collective("Alltoallv", "a, m, at, MPI_INT, b, m, at, MPI_INT", lambda p, me: (both(p, me), both(p, me)))
    yield Collective(
        "Alltoallw", "a, m, bytes_at, types, b, m, bytes_at, types", lambda p, me: (both(p, me), both(p, me))
    )
    yield Collective("Reduce_scatter_block", reduction, everybody)
    yield Collective("Reduce_scatter", "a, b, n, MPI_INT, MPI_SUM", lambda p, me: (_sum(p), p * own(me)))
    yield Collective("Scan", reduction, lambda p, me: ((p - me) * B, (me + 1) * B))

    def exscan(p: int, me: int) -> tuple[int, int]:
        return ((p - me - 1) * B, me * B)

    yield Collective("Exscan", reduction, exscan)

    in_place, no_type = "MPI_IN_PLACE", "MPI_IN_PLACE, 0, MPI_DATATYPE_NULL"

    def to_root(p: int, me: int) -> tuple[int, int]:
        return (0, (p - 1) * B) if _root(p, me) else (B, 0)

    def from_root(p: int, me: int) -> tuple[int, int]:
        return to_root(p, me)[::-1]

    def to_root_v(p: int, me: int) -> tuple[int, int]:
        return (0, _sum(p) - own(me)) if _root(p, me) else (own(me), 0)

    def others(p: int, me: int) -> tuple[int, int]:
        return ((p - 1) * B, (p - 1) * B)

    def others_v(p: int, me: int) -> tuple[int, int]:
        return (both(p, me) - (2 * me + 1) * INT,) * 2

    mine = "rank == root ? MPI_IN_PLACE : (void *)"
    for name, arguments, rule in (
        ("Reduce", f"{mine} a, b, N, MPI_INT, MPI_SUM, root", to_root),
        ("Gather", f"{mine} {one}, {other}, root", to_root),
        ("Gatherv", f"{mine} a, rank + 1, MPI_INT, {each}, root", to_root_v),
        ("Scatter", f"{one}, {mine} {other}, root", from_root),
        (
            "Scatterv",
            f"a, n, at, MPI_INT, {mine} b, rank + 1, MPI_INT, root",
            lambda p, me: to_root_v(p, me)[::-1],
        ),
        ("Allreduce", f"{in_place}, b, N, MPI_INT, MPI_SUM", others),
        ("Allgather", f"{no_type}, {other}", others),
        ("Allgatherv", f"{no_type}, {each}", lambda p, me: ((p - 1) * own(me), _sum(p) - own(me))),
        ("Alltoall", f"{no_type}, {other}", others),
        ("Alltoallv", f"{in_place}, NULL, NULL, MPI_DATATYPE_NULL, b, m, at, MPI_INT", others_v),
        ("Alltoallw", f"{in_place}, NULL, NULL, NULL, b, m, bytes_at, types", others_v),
        ("Reduce_scatter_block", f"{in_place}, b, N, MPI_INT, MPI_SUM", others),
        (
            "Reduce_scatter",
            f"{in_place}, b, n, MPI_INT, MPI_SUM",
            lambda p, me: (_sum(p) - own(me), (p - 1) * own(me)),
        ),
        ("Scan", f"{in_place}, b, N, MPI_INT, MPI_SUM", exscan),
        ("Exscan", f"{in_place}, b, N, MPI_INT, MPI_SUM", exscan),
    ):
        yield Collective(name, arguments, rule, label="in_place")


# ---- intercommunicators: the first half of the ranks talks to the rest; the root is the first rank of the first half


def _sides(p: int, me: int) -> tuple[bool, int, int, int]:
    """Whether this rank is in the first half, its rank there, the size of its group and that of the other."""
    half = p // 2
    return (True, me, half, p - half) if me < half else (False, me - half, p - half, half)


def _across() -> Iterable[Collective]:
    one, other = "a, N, MPI_INT", "b, N, MPI_INT"
    reduction = "a, b, N, MPI_INT, MPI_SUM"

    def collective(name: str, arguments: str, rule: Callable[[bool, int, int, int], tuple[int, int]]) -> Collective:
        return Collective(
            name,
            arguments,
            lambda p, me: rule(*_sides(p, me)),
            comm="inter",
            label="across",
            partners=lambda p, me: _sides(p, me)[3],
            least_ranks=2,
        )

    def gathers(first: bool, me: int, own: int, rest: int) -> tuple[int, int]:
        return (0, rest * B if me == 0 else 0) if first else (B, 0)

    def gathers_v(first: bool, me: int, own: int, rest: int) -> tuple[int, int]:
        return (0, _sum(rest) if me == 0 else 0) if first else ((me + 1) * INT, 0)

    yield collective("Barrier", "", lambda first, me, own, rest: (0, 0))
    yield collective("Bcast", f"{one}, inter_root", lambda *who: gathers(*who)[::-1])
    yield collective("Reduce", f"{reduction}, inter_root", gathers)
    yield collective("Gather", f"{one}, {other}, inter_root", gathers)
    yield collective("Gatherv", "a, inter_rank + 1, MPI_INT, b, n, at, MPI_INT, inter_root", gathers_v)
    yield collective("Scatter", f"{one}, {other}, inter_root", lambda *who: gathers(*who)[::-1])
    yield collective(
        "Scatterv",
        "a, n, at, MPI_INT, b, inter_rank + 1, MPI_INT, inter_root",
        lambda *who: gathers_v(*who)[::-1],
    )
    for name, arguments in (
        ("Allreduce", reduction),
        ("Allgather", f"{one}, {other}"),
        ("Alltoall", f"{one}, {other}"),
    ):
        yield collective(name, arguments, lambda first, me, own, rest: (rest * B, rest * B))
    yield collective(
        "Allgatherv",
        "a, inter_rank + 1, MPI_INT, b, n, at, MPI_INT",
        lambda first, me, own, rest: (rest * (me + 1) * INT, _sum(rest)),
    )

    def exchanged(me: int, rest: int) -> int:
        return sum(me + q + 1 for q in range(rest)) * INT

    yield collective(
        "Alltoallv",
        "a, im, at, MPI_INT, b, im, at, MPI_INT",
        lambda first, me, own, rest: (exchanged(me, rest), exchanged(me, rest)),
    )
    yield collective(
        "Alltoallw",
        "a, im, bytes_at, types, b, im, bytes_at, types",
        lambda first, me, own, rest: (exchanged(me, rest), exchanged(me, rest)),
    )
    # Both groups must give the same total: the own group's size times the count.
    yield collective(
        "Reduce_scatter_block",
        "a, b, 12 / inter_size, MPI_INT, MPI_SUM",
        lambda first, me, own, rest: (own * (12 // own) * INT, own * (12 // own) * INT),
    )
    yield collective(
        "Reduce_scatter",
        "a, b, twelfth, MPI_INT, MPI_SUM",
        lambda first, me, own, rest: (12 * INT, rest * (12 // own) * INT),
    )


# ---- neighbours: a row of ranks with ends, so that the first and the last have one neighbour


def _near() -> Iterable[Collective]:
    def there(p: int, me: int) -> int:
        return (me > 0) + (me < p - 1)

    def blocks(p: int, me: int) -> tuple[int, int]:
        return (there(p, me) * B, there(p, me) * B)

    # Between ranks i and i + 1 go 2 i + 2 numbers: counts by direction.
    def left(p: int, me: int) -> int:
        return 2 * me * INT if me > 0 else 0

    def right(p: int, me: int) -> int:
        return 2 * (me + 1) * INT if me < p - 1 else 0

    def both(p: int, me: int) -> tuple[int, int]:
        return (left(p, me) + right(p, me),) * 2

    one, other = "a, N, MPI_INT", "b, N, MPI_INT"
    for name, arguments, rule in (
        ("Neighbor_allgather", f"{one}, {other}", blocks),
        ("Neighbor_alltoall", f"{one}, {other}", blocks),
        (
            "Neighbor_allgatherv",
            "a, rank + 1, MPI_INT, b, near, at, MPI_INT",
            lambda p, me: (
                there(p, me) * (me + 1) * INT,
                (me * INT if me > 0 else 0) + ((me + 2) * INT if me < p - 1 else 0),
            ),
        ),
        ("Neighbor_alltoallv", "a, between, at, MPI_INT, b, between, at, MPI_INT", both),
        ("Neighbor_alltoallw", "a, between, near_at, types, b, between, near_at, types", both),
    ):
        yield Collective(name, arguments, rule, comm="row")

    # All talk to the root of a star; a graph has neighbours on both sides.
    def to_root(p: int, me: int) -> tuple[int, int]:
        return (B, p * B if _root(p, me) else 0)

    for comm, rule in (("star", to_root), ("graph", lambda p, me: (2 * B, 2 * B))):
        for name in ("Neighbor_allgather", "Neighbor_alltoall"):
            yield Collective(name, f"{one}, {other}", rule, comm=comm, label=comm)


_ARRAYS = (
    "COUNT n[MOST], m[MOST], im[MOST], near[2], between[2], twelfth[MOST]; AT at[MOST]; AT bytes_at[MOST];"
    "MPI_Aint near_at[2] = {0, 50 * sizeof(int)}; MPI_Datatype types[MOST];"
    "for (int i = 0; i < MOST; i++) { n[i] = i + 1; m[i] = rank + i + 1; im[i] = inter_rank + i + 1;"
    "at[i] = 50 * i; bytes_at[i] = 200 * i; types[i] = MPI_INT; twelfth[i] = 12 / inter_size; }"
    "near[0] = rank; near[1] = rank + 2; between[0] = 2 * rank; between[1] = 2 * (rank + 1);"
    "(void)n, (void)m, (void)im, (void)near, (void)between, (void)at, (void)bytes_at, (void)near_at, (void)types;"
    "(void)twelfth;"
)


def _forms(this: Collective) -> Iterable[Case]:
    """Return cases for the blocking, the non-blocking and the persistent form; the last two are booked at the end."""
    large = "" if this.name == "Barrier" else "@"
    arguments = f"{this.arguments}, {this.comm}".lstrip(", ")
    name, non_blocking = this.name + large, f"I{this.name[0].lower()}{this.name[1:]}{large}"
    persistent = f"{this.name}_init{large}"
    label = "_".join(part for part in (this.name, this.label) if part)
    size = this.partners

    def blocking(p: int, me: int) -> Mapping[str, Row]:
        return {name: (1, *this.bytes(p, me), size(p, me))}

    def started(p: int, me: int) -> Mapping[str, Row]:
        return {non_blocking: (1, 0, 0, size(p, me)), "Wait": (1, *this.bytes(p, me), 0)}

    def repeated(p: int, me: int) -> Mapping[str, Row]:
        sent, received = this.bytes(p, me)
        return {
            persistent: (1, 0, 0, size(p, me)),
            "Start": (2, 0, 0, 2 * size(p, me)),
            "Wait": (2, 2 * sent, 2 * received, 0),
            "Request_free": (1, 0, 0, 0),
        }

    yield Case(label, f"{_ARRAYS} MPI_{name}({arguments});", blocking, this.least_ranks)
    code = f"{_ARRAYS} MPI_Request q; MPI_{non_blocking}({arguments}, &q); {WAIT}"
    yield Case(f"I{label}", code, started, this.least_ranks)
    twice = f"for (int k = 0; k < 2; k++) {{ MPI_Start(&q); {WAIT} }} MPI_Request_free(&q);"
    code = f"{_ARRAYS} MPI_Request q; MPI_{persistent}({arguments}, MPI_INFO_NULL, &q); {twice}"
    if this.label != "across":  # MPI 4.0 leaves persistent collectives on intercommunicators to the libraries
        yield Case(f"{label}_init", code, repeated, this.least_ranks)


# ---- one-sided: 6 numbers to or from the next rank; sent is put, received is got


def _one_sided() -> Iterable[Case]:
    target = "next, 0, 6, MPI_INT, win"
    summed = "next, 0, 6, MPI_INT, MPI_SUM, win"
    put, got = 6 * INT, 6 * INT
    fence = "MPI_Win_fence(0, win);"
    for name, arguments, rule in (
        ("Put", f"a, 6, MPI_INT, {target}", (put, 0)),
        ("Get", f"a, 6, MPI_INT, {target}", (0, got)),
        ("Accumulate", f"a, 6, MPI_INT, {summed}", (put, 0)),
        ("Get_accumulate", f"a, 6, MPI_INT, b, 6, MPI_INT, {summed}", (put, got)),
    ):
        yield Case(
            name,
            f"{fence} MPI_{name}@({arguments}); {fence}",
            lambda p, me, name=name, rule=rule: {"Win_fence": (2, 0, 0, 0), f"{name}@": (1, *rule, 0)},
        )
        request = f"R{name[0].lower()}{name[1:]}"
        yield Case(
            request,
            f"MPI_Request q; MPI_Win_lock_all(0, win); MPI_{request}@({arguments}, &q); {WAIT}MPI_Win_unlock_all(win);",
            lambda p, me, name=request, rule=rule: {
                "Win_lock_all": (1, 0, 0, 0),
                f"{name}@": (1, *rule, 0),
                "Wait": (1, 0, 0, 0),
                "Win_unlock_all": (1, 0, 0, 0),
            },
        )
    yield Case(
        "atomics",
        f"{fence} MPI_Fetch_and_op(a, b, MPI_INT, next, 0, MPI_SUM, win);"
        f"MPI_Compare_and_swap(a, a + 1, b, MPI_INT, next, 1, win); MPI_Put(a, 6, MPI_INT, MPI_PROC_NULL, 0, 6,"
        f"MPI_INT, win); {fence}",
        lambda p, me: {
            "Win_fence": (2, 0, 0, 0),
            "Fetch_and_op": (1, INT, INT, 0),
            "Compare_and_swap": (1, INT, INT, 0),
            "Put": (1, 0, 0, 0),
        },
    )
    once = {
        "locks": "lock unlock flush flush_local flush_all flush_local_all sync",
        "posts": "post start complete wait",
    }
    yield Case(
        "locks",
        "MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win); MPI_Win_flush(next, win); MPI_Win_flush_local(next, win);"
        "MPI_Win_flush_all(win); MPI_Win_flush_local_all(win); MPI_Win_sync(win); MPI_Win_unlock(next, win);",
        lambda p, me: {f"Win_{name}": (1, 0, 0, 0) for name in once["locks"].split()},
    )
    yield Case(
        "posts",
        "MPI_Group g; MPI_Comm_group(world, &g); MPI_Win_post(g, 0, win); MPI_Win_start(g, 0, win);"
        "MPI_Win_complete(win); MPI_Win_wait(win); MPI_Win_post(g, 0, win); MPI_Win_start(g, 0, win);"
        "MPI_Win_complete(win); for (int flag = 0; !flag;) MPI_Win_test(win, &flag); MPI_Group_free(&g);",
        lambda p, me: {
            "Win_post": (2, 0, 0, 0),
            "Win_start": (2, 0, 0, 0),
            "Win_complete": (2, 0, 0, 0),
            "Win_wait": (1, 0, 0, 0),
            "Win_test": (None, 0, 0, 0),
        },
    )
    for name, before, after in (("create", "b, ", ""), ("allocate", "", "&base, "), ("allocate_shared", "", "&base, ")):
        yield Case(
            f"Win_{name}",
            f"void *base; MPI_Win w; (void)base; MPI_Win_{name}@({before}64, 4, MPI_INFO_NULL, local, {after}&w);"
            "MPI_Win_free(&w);",
            lambda p, me, name=name: {f"Win_{name}@": (1, 0, 0, p), "Win_free": (1, 0, 0, 0)},
            least_ranks=2 if name == "create" else 1,  # Open MPI 4 cannot do it alone
        )
    yield Case(
        "Win_create_dynamic",
        "MPI_Win w; MPI_Win_create_dynamic(MPI_INFO_NULL, world, &w); MPI_Win_attach(w, b, 64); MPI_Win_detach(w, b);"
        "MPI_Win_free(&w);",
        lambda p, me: {
            "Win_create_dynamic": (1, 0, 0, p),
            "Win_attach": (1, 0, 0, 0),
            "Win_detach": (1, 0, 0, 0),
            "Win_free": (1, 0, 0, 0),
        },
        least_ranks=2,
    )


# ---- communicators


def _communicators() -> Iterable[Case]:
    made = "MPI_Comm c; MPI_Comm_{0}(world, {1}&c); MPI_Comm_free(&c);"
    for name, arguments in (
        ("dup", ""),
        ("dup_with_info", "MPI_INFO_NULL, "),
        ("split", "0, rank, "),
        ("split_type", "MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, "),
    ):
        yield Case(
            f"Comm_{name}",
            made.format(name, arguments),
            lambda p, me, name=name: {f"Comm_{name}": (1, 0, 0, p), "Comm_free": (1, 0, 0, p)},
        )
    for name, arguments in (("create", "g, "), ("create_group", "g, 1, ")):
        yield Case(
            f"Comm_{name}",
            f"MPI_Group g; MPI_Comm_group(world, &g); {made.format(name, arguments)} MPI_Group_free(&g);",
            lambda p, me, name=name: {f"Comm_{name}": (1, 0, 0, p), "Comm_free": (1, 0, 0, p)},
        )
    for name, arguments in (("idup", "&c, &q"), ("idup_with_info", "MPI_INFO_NULL, &c, &q")):
        yield Case(
            f"Comm_{name}",
            f"MPI_Comm c; MPI_Request q; MPI_Comm_{name}(world, {arguments}); {WAIT} MPI_Comm_disconnect(&c);",
            lambda p, me, name=name: {
                f"Comm_{name}": (1, 0, 0, p),
                "Wait": (1, 0, 0, 0),
                "Comm_disconnect": (1, 0, 0, p),
            },
        )
    yield Case(
        "topologies",
        "MPI_Comm c[4], s; int dims[1] = {size}, no[1] = {0}, yes[1] = {1}, ends[MOST], edges[MOST];"
        "for (int i = 0; i < size; i++) { ends[i] = i + 1; edges[i] = (i + 1) % size; }"
        "MPI_Cart_create(world, 1, dims, no, 0, &c[0]); MPI_Cart_sub(c[0], yes, &s);"
        "MPI_Graph_create(world, size, ends, edges, 0, &c[1]);"
        "MPI_Dist_graph_create(world, 1, &rank, yes, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &c[2]);"
        "MPI_Dist_graph_create_adjacent(world, 1, &previous, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED, MPI_INFO_NULL,"
        "0, &c[3]); MPI_Comm_free(&s); for (int i = 0; i < 4; i++) MPI_Comm_free(&c[i]);",
        lambda p, me: {
            "Cart_create": (1, 0, 0, p),
            "Cart_sub": (1, 0, 0, p),
            "Graph_create": (1, 0, 0, p),
            "Dist_graph_create": (1, 0, 0, p),
            "Dist_graph_create_adjacent": (1, 0, 0, p),
            "Comm_free": (5, 0, 0, 5 * p),
        },
    )
    yield Case(
        "intercommunicators",
        "MPI_Comm side, over, all; int first = rank < size / 2; MPI_Comm_split(world, first, rank, &side);"
        "MPI_Intercomm_create(side, 0, world, first ? size / 2 : 0, 5, &over); MPI_Intercomm_merge(over, first, &all);"
        "MPI_Comm_free(&all); MPI_Comm_free(&over); MPI_Comm_free(&side);",
        lambda p, me: {
            "Comm_split": (1, 0, 0, p),
            "Intercomm_create": (1, 0, 0, _sides(p, me)[2]),
            "Intercomm_merge": (1, 0, 0, _sides(p, me)[3]),
            "Comm_free": (3, 0, 0, p + _sides(p, me)[3] + _sides(p, me)[2]),
        },
        least_ranks=2,
    )
    # A freed communicator's handle comes back for one of another size: what was known of it must not stay.
    yield Case(
        "handles_come_back",
        "for (int i = 0; i < 20; i++) { MPI_Comm c; MPI_Comm_split(world, i % 2 ? 0 : rank, rank, &c); MPI_Barrier(c);"
        "PMPI_Comm_free(&c); }",
        lambda p, me: {"Comm_split": (20, 0, 0, 20 * p), "Barrier": (20, 0, 0, 10 * p + 10)},
    )
    yield Case(
        "from_groups",
        "MPI_Group g; MPI_Comm c; MPI_Comm_group(world, &g);"
        'MPI_Comm_create_from_group(g, "buran", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &c); MPI_Comm_free(&c);'
        "MPI_Group_free(&g);",
        lambda p, me: {"Comm_create_from_group": (1, 0, 0, 0), "Comm_free": (1, 0, 0, p)},
    )


def all_cases(*, isendrecv_tells: bool = True) -> list[Case]:
    """Return all cases, each variant on its own.

    Parameters
    ----------
    isendrecv_tells
        Whether the MPI sets the status of MPI_Isendrecv.
    """
    collectives = [case for row in (*_collectives(), *_across(), *_near()) for case in _forms(row)]
    cases = [*_p2p(isendrecv_tells), *_completion(), *collectives, *_one_sided(), *_communicators()]
    return [variant for case in cases for variant in case.variants()]


PROLOGUE = """
#include <mpi.h>
#include <stdlib.h>
#define NOINLINE __attribute__((noinline))
enum { N = 100, MOST = 8 };
static int rank, size, next, previous, root, inter_root, inter_rank, inter_size = 1;
static int *a, *b, *shown;
static MPI_Comm world, inter, row, star, graph, local;
static MPI_Win win;
static char room[1 << 16];

static void make_comms(void) {
    int dims[1] = {size}, no[1] = {0}, ends[MOST], edges[2 * MOST];
    int all[MOST] = {0, 1, 2, 3, 4, 5, 6, 7};
    PMPI_Cart_create(world, 1, dims, no, 0, &row);
    for (int i = 0; i < size; i++) {
        ends[i] = 2 * (i + 1);
        edges[2 * i] = (i + size - 1) % size;
        edges[2 * i + 1] = (i + 1) % size;
    }
    PMPI_Graph_create(world, size, ends, edges, 0, &graph);
    PMPI_Dist_graph_create_adjacent(world, rank == root ? size : 0, all, MPI_UNWEIGHTED, 1, &root, MPI_UNWEIGHTED,
                                    MPI_INFO_NULL, 0, &star);
    PMPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
    PMPI_Win_allocate(64 * sizeof(int), sizeof(int), MPI_INFO_NULL, world, &shown, &win);
    if (size < 2)
        return;
    int first = rank < size / 2;
    MPI_Comm side;
    PMPI_Comm_split(world, first, rank, &side);
    PMPI_Intercomm_create(side, 0, world, first ? size / 2 : 0, 3, &inter);
    PMPI_Comm_rank(inter, &inter_rank);
    PMPI_Comm_size(inter, &inter_size);
    inter_root = !first ? 0 : inter_rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
}
"""

EPILOGUE = """
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    PMPI_Comm_dup(MPI_COMM_WORLD, &world);
    PMPI_Comm_rank(world, &rank);
    PMPI_Comm_size(world, &size);
    next = (rank + 1) % size;
    previous = (rank + size - 1) % size;
    root = size - 1;
    a = calloc(1 << 14, sizeof *a);
    b = calloc(1 << 14, sizeof *b);
    make_comms();
    MPI_Buffer_attach(room, sizeof room);
    run();
    PMPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
"""


def program(cases: Iterable[Case]) -> str:
    """Return the C program that performs the cases, each in a function ``case_<name>``."""
    chosen = list(cases)
    functions = "".join(f"static NOINLINE void case_{case.name}(void) {{ {case.code} }}\n" for case in chosen)
    calls = "".join(
        f"    if (size >= {case.least_ranks}) case_{case.name}();\n    PMPI_Barrier(world);\n" for case in chosen
    )
    return f"{PROLOGUE}{functions}static NOINLINE void run(void) {{\n{calls}}}\n{EPILOGUE}"
