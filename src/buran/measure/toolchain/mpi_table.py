"""The one table of the MPI operations that are intercepted: what they look like and which bytes they move.

`buran.measure.toolchain.mpi_wrappers` turns it into C, `tools/reference/mpi_operations.py` into the reference page,
and the reader of profiles takes its roles from here. Byte rules are C expressions over the operation's parameters and
these names:

``N``, ``P``, ``me``
    Size of the partners' group (the own one; the remote one of an intercommunicator), size of the own group, own rank.
``in_place``
    1 if this process gave ``MPI_IN_PLACE``, else 0.
``at_root``, ``member``
    Whether this process is the root of a rooted operation, and whether it is one of those that talk to the root.

The helpers (`bytes_of`, `sum_of`, ...) are in ``native/mpi_facts.h``. What only a root knows is looked at only there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

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
    """What an operation sends and receives, as C and in words.

    Attributes
    ----------
    sent, received
        C expressions of type ``uint64_t``.
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


_B, _TO_B = "bytes_of(n, type)", "bytes_of(to_n, to_type)"
_TO_OTHERS = "sum_of(to_n, N, in_place, me) * size_of(to_type)"
_AT_ROOT_OTHERS = "root: sum over all (in place: without its own)"

RULES: dict[str, ByteRule] = {
    "none": ByteRule(),
    "init": ByteRule(),
    "sends": ByteRule("bytes_to(dest, n, type)", says_sent="n"),
    "receives": ByteRule(says_received="what arrived"),
    "exchanges": ByteRule("bytes_to(dest, n, type)", says_sent="n", says_received="what arrived"),
    "starts": ByteRule(says_sent="n of each persistent send"),
    "completes": ByteRule(
        says_sent="what completed collectives sent",
        says_received="what arrived, and what completed collectives received",
    ),
    "sends partitions": ByteRule("bytes_to(dest, (MPI_Count)partitions * n, type)", says_sent="n of all partitions"),
    "receives partitions": ByteRule(
        received="bytes_to(source, (MPI_Count)partitions * n, type)", says_received="n of all partitions"
    ),
    "bcast": ByteRule(f"at_root ? N * {_B} : 0", f"member ? {_B} : 0", "root: N n", "n on every process"),
    "reduce": ByteRule(
        f"member && !in_place ? {_B} : 0",
        f"at_root ? (N - in_place) * {_B} : 0",
        "n (root in place: 0)",
        "root: N n (in place: (N - 1) n)",
        "from",
    ),
    "allreduce": ByteRule(
        f"(N - in_place) * {_B}",
        f"(N - in_place) * {_B}",
        "N n (in place: (N - 1) n)",
        "N n (in place: (N - 1) n)",
        "from",
    ),
    "reduce_scatter_block": ByteRule(
        f"(P - in_place) * {_B}",
        f"(P - in_place) * {_B}",
        "P n (in place: (P - 1) n)",
        "P n (in place: (P - 1) n)",
        "from",
    ),
    "reduce_scatter": ByteRule(
        "sum_of(n, P, in_place, me) * size_of(type)",
        "(N - in_place) * bytes_of(n[me], type)",
        "sum over the own group (in place: without its own)",
        "N times its own n (in place: N - 1 times)",
        "from",
    ),
    "scan": ByteRule(
        f"(P - me - in_place) * {_B}",
        f"(me + 1 - in_place) * {_B}",
        "(P - me) n (in place: (P - me - 1) n)",
        "(me + 1) n (in place: me n)",
        "from",
    ),
    "exscan": ByteRule(f"(P - me - 1) * {_B}", f"me * {_B}", "(P - me - 1) n", "me n"),
    "gather": ByteRule(
        f"member && !in_place ? {_B} : 0",
        f"at_root ? (N - in_place) * {_TO_B} : 0",
        "n (root in place: 0)",
        "root: N n (in place: (N - 1) n)",
        "from",
    ),
    "gatherv": ByteRule(
        f"member && !in_place ? {_B} : 0",
        f"at_root ? {_TO_OTHERS} : 0",
        "n (root in place: 0)",
        _AT_ROOT_OTHERS,
        "from",
    ),
    "scatter": ByteRule(
        f"at_root ? (N - in_place) * {_B} : 0",
        f"member && !in_place ? {_TO_B} : 0",
        "root: N n (in place: (N - 1) n)",
        "n (root in place: 0)",
        "to",
    ),
    "scatterv": ByteRule(
        "at_root ? sum_of(n, N, in_place, me) * size_of(type) : 0",
        f"member && !in_place ? {_TO_B} : 0",
        _AT_ROOT_OTHERS,
        "n (root in place: 0)",
        "to",
    ),
    "allgather": ByteRule(
        f"in_place ? (N - 1) * {_TO_B} : N * {_B}",
        f"(N - in_place) * {_TO_B}",
        "N n (in place: (N - 1) n)",
        "N n (in place: (N - 1) n)",
        "from",
    ),
    "allgatherv": ByteRule(
        f"in_place ? (N - 1) * bytes_of(to_n[me], to_type) : N * {_B}",
        _TO_OTHERS,
        "N n (in place: N - 1 times its own)",
        "sum over all (in place: without its own)",
        "from",
    ),
    "alltoallv": ByteRule(
        f"in_place ? {_TO_OTHERS} : sum_of(n, N, 0, me) * size_of(type)",
        _TO_OTHERS,
        "sum over all (in place: as received)",
        "sum over all (in place: without its own)",
        "from",
    ),
    "alltoallw": ByteRule(
        "in_place ? bytes_of_each(to_n, to_types, N, 1, me) : bytes_of_each(n, types, N, 0, me)",
        "bytes_of_each(to_n, to_types, N, in_place, me)",
        "sum over all (in place: as received)",
        "sum over all (in place: without its own)",
        "from",
    ),
    "neighbor_allgather": ByteRule(
        f"destinations(comm) * {_B}",
        f"sources(comm) * {_TO_B}",
        "n to each neighbour",
        "n from each neighbour",
    ),
    "neighbor_allgatherv": ByteRule(
        f"destinations(comm) * {_B}",
        "sum_of_near(to_n, comm, INCOMING) * size_of(to_type)",
        "n to each neighbour",
        "sum over the neighbours",
    ),
    "neighbor_alltoallv": ByteRule(
        "sum_of_near(n, comm, OUTGOING) * size_of(type)",
        "sum_of_near(to_n, comm, INCOMING) * size_of(to_type)",
        "sum over the neighbours",
        "sum over the neighbours",
    ),
    "neighbor_alltoallw": ByteRule(
        "bytes_of_each_near(n, types, comm, OUTGOING)",
        "bytes_of_each_near(to_n, to_types, comm, INCOMING)",
        "sum over the neighbours",
        "sum over the neighbours",
    ),
    # One-sided: Score-P keeps these apart as bytes_put and bytes_get, and so does the reader of profiles.
    "put": ByteRule("bytes_to(rank, n, type)", says_sent="put: n"),
    "get": ByteRule(received="bytes_to(rank, n, type)", says_received="get: n"),
    "get_accumulate": ByteRule(
        "bytes_to(rank, n, type)", "bytes_to(rank, to_n, to_type)", "put: n", "get: n of the result"
    ),
    "fetch": ByteRule("bytes_to(rank, 1, type)", "bytes_to(rank, 1, type)", "put: one element", "get: one element"),
}

_SEND = "const void *from, COUNT n, MPI_Datatype type, int dest, int tag, MPI_Comm comm"
_RECEIVE = "void *to, COUNT n, MPI_Datatype type, int source, int tag, MPI_Comm comm"
_MATCHED = "void *to, COUNT n, MPI_Datatype type, MPI_Message *message"
_EXCHANGE = (
    "const void *from, COUNT n, MPI_Datatype type, int dest, int send_tag, void *to, COUNT to_n, MPI_Datatype to_type, "
    "int source, int tag, MPI_Comm comm"
)
_REPLACE = "void *both, COUNT n, MPI_Datatype type, int dest, int send_tag, int source, int tag, MPI_Comm comm"
_PARTITIONS = "int partitions, MPI_Count n, MPI_Datatype type"
_REST = "int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request"


def _messages(form: Form, rule: str, names: str, parameters: str, **more: str | bool) -> list[MpiOperation]:
    base = MpiOperation("", parameters, form, rule, "comm", "point2point")
    return [replace(base, name=name, **more) for name in names.split()]  # type: ignore[arg-type]


_POINT_TO_POINT = [
    *_messages("call", "sends", "Send Ssend Bsend Rsend", _SEND),
    *_messages("start", "sends", "Isend Issend Ibsend Irsend", _SEND + ", MPI_Request *request"),
    *_messages(
        "persistent-send", "sends", "Send_init Ssend_init Bsend_init Rsend_init", _SEND + ", MPI_Request *request"
    ),
    *_messages("receive", "receives", "Recv", _RECEIVE + ", MPI_Status *status"),
    *_messages("receive-start", "receives", "Irecv", _RECEIVE + ", MPI_Request *request"),
    *_messages("persistent-receive", "receives", "Recv_init", _RECEIVE + ", MPI_Request *request"),
    *_messages("receive", "receives", "Mrecv", _MATCHED + ", MPI_Status *status", comm="", like_score_p=False),
    *_messages("receive-start", "receives", "Imrecv", _MATCHED + ", MPI_Request *request", comm="", like_score_p=False),
    *_messages("receive", "exchanges", "Sendrecv", _EXCHANGE + ", MPI_Status *status"),
    *_messages("receive", "exchanges", "Sendrecv_replace", _REPLACE + ", MPI_Status *status"),
    *_messages(
        "receive-start",
        "exchanges",
        "Isendrecv",
        _EXCHANGE + ", MPI_Request *request",
        since="4.0",
        like_score_p=False,
    ),
    *_messages(
        "receive-start",
        "exchanges",
        "Isendrecv_replace",
        _REPLACE + ", MPI_Request *request",
        since="4.0",
        like_score_p=False,
    ),
    *_messages(
        "persistent-send",
        "sends partitions",
        "Psend_init",
        f"const void *from, {_PARTITIONS}, int dest, {_REST}",
        since="4.0",
        like_score_p=False,
    ),
    *_messages(
        "persistent",
        "receives partitions",
        "Precv_init",
        f"void *to, {_PARTITIONS}, int source, {_REST}",
        since="4.0",
        like_score_p=False,
    ),
    MpiOperation("Pready", "int partition, MPI_Request request", role="point2point", since="4.0"),
    MpiOperation("Pready_range", "int first, int last, MPI_Request request", role="point2point", since="4.0"),
    MpiOperation("Pready_list", "int n, const int partitions[], MPI_Request request", role="point2point", since="4.0"),
    MpiOperation(
        "Parrived", "MPI_Request request, int partition, int *flag", role="point2point", since="4.0", polls=True
    ),
    *_messages("call", "none", "Probe", "int source, int tag, MPI_Comm comm, MPI_Status *status"),
    *_messages(
        "call", "none", "Iprobe", "int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status", polls=True
    ),
    *_messages(
        "call", "none", "Mprobe", "int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status"
    ),
    *_messages(
        "call",
        "none",
        "Improbe",
        "int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status",
        polls=True,
    ),
    *(MpiOperation(name, "", "own", "starts") for name in ("Start", "Startall")),
    *(MpiOperation(name, "", "own", "completes") for name in ("Wait", "Waitall", "Waitany")),
    *(
        MpiOperation(name, "", "own", "completes", polls=True)
        for name in ("Waitsome", "Test", "Testall", "Testany", "Testsome")
    ),
    MpiOperation("Request_get_status", "MPI_Request request, int *flag, MPI_Status *status", polls=True),
    MpiOperation(
        "Request_get_status_all",
        "int n, const MPI_Request requests[], int *flag, MPI_Status *statuses",
        since="4.1",
        polls=True,
    ),
    MpiOperation(
        "Request_get_status_any",
        "int n, const MPI_Request requests[], int *index, int *flag, MPI_Status *status",
        since="4.1",
        polls=True,
    ),
    MpiOperation(
        "Request_get_status_some",
        "int n, const MPI_Request requests[], int *done, int indices[], MPI_Status *statuses",
        since="4.1",
        polls=True,
    ),
    MpiOperation("Request_free", "", "own"),
    MpiOperation("Cancel", "", "own"),
]

_REDUCTION = "const void *from, void *to, COUNT n, MPI_Datatype type, MPI_Op op"
_FROM, _TO = "const void *from, COUNT n, MPI_Datatype type", "void *to, COUNT to_n, MPI_Datatype to_type"
_FROM_EACH = "const void *from, const COUNT n[], const DISPLACEMENT at[], MPI_Datatype type"
_TO_EACH = "void *to, const COUNT to_n[], const DISPLACEMENT to_at[], MPI_Datatype to_type"
_BOTH_EACH_TYPE = (
    "const void *from, const COUNT n[], const {at} at[], const MPI_Datatype types[], "
    "void *to, const COUNT to_n[], const {at} to_at[], const MPI_Datatype to_types[]"
)


def _collective(name: str, parameters: str, rule: str, role: str, *, like_score_p: bool = True) -> list[MpiOperation]:
    """Return the blocking, the non-blocking and the persistent form."""
    request = ", MPI_Request *request"
    blocking = MpiOperation(name, f"{parameters}, MPI_Comm comm".lstrip(", "), "call", rule, "comm", role)
    blocking = replace(blocking, like_score_p=like_score_p)
    return [
        blocking,
        replace(
            blocking,
            name="I" + name[0].lower() + name[1:],
            parameters=blocking.parameters + request,
            form="collective-start",
        ),
        replace(
            blocking,
            name=f"{name}_init",
            parameters=f"{blocking.parameters}, MPI_Info info{request}",
            form="persistent",
            since="4.0",
            like_score_p=rule == "none",
        ),
    ]


_COLLECTIVES = [
    *_collective("Barrier", "", "none", "barrier"),
    *_collective("Bcast", "void *from, COUNT n, MPI_Datatype type, int root", "bcast", "one2all"),
    *_collective("Scatter", f"{_FROM}, {_TO}, int root", "scatter", "one2all"),
    *_collective("Scatterv", f"{_FROM_EACH}, {_TO}, int root", "scatterv", "one2all"),
    *_collective("Reduce", f"{_REDUCTION}, int root", "reduce", "all2one"),
    *_collective("Gather", f"{_FROM}, {_TO}, int root", "gather", "all2one"),
    *_collective("Gatherv", f"{_FROM}, {_TO_EACH}, int root", "gatherv", "all2one"),
    *_collective("Allreduce", _REDUCTION, "allreduce", "all2all"),
    *_collective("Allgather", f"{_FROM}, {_TO}", "allgather", "all2all"),
    *_collective("Allgatherv", f"{_FROM}, {_TO_EACH}", "allgatherv", "all2all"),
    *_collective("Alltoall", f"{_FROM}, {_TO}", "allgather", "all2all"),
    *_collective("Alltoallv", f"{_FROM_EACH}, {_TO_EACH}", "alltoallv", "all2all"),
    *_collective("Alltoallw", _BOTH_EACH_TYPE.format(at="DISPLACEMENT"), "alltoallw", "all2all"),
    *_collective("Reduce_scatter_block", _REDUCTION, "reduce_scatter_block", "all2all"),
    *_collective("Reduce_scatter", _REDUCTION.replace("COUNT n", "const COUNT n[]"), "reduce_scatter", "all2all"),
    *_collective("Scan", _REDUCTION, "scan", "other collective"),
    *_collective("Exscan", _REDUCTION, "exscan", "other collective"),
    *_collective("Neighbor_allgather", f"{_FROM}, {_TO}", "neighbor_allgather", "all2all", like_score_p=False),
    *_collective("Neighbor_allgatherv", f"{_FROM}, {_TO_EACH}", "neighbor_allgatherv", "all2all", like_score_p=False),
    *_collective("Neighbor_alltoall", f"{_FROM}, {_TO}", "neighbor_allgather", "all2all", like_score_p=False),
    *_collective(
        "Neighbor_alltoallv", f"{_FROM_EACH}, {_TO_EACH}", "neighbor_alltoallv", "all2all", like_score_p=False
    ),
    *_collective(
        "Neighbor_alltoallw",
        _BOTH_EACH_TYPE.format(at="MPI_Aint"),
        "neighbor_alltoallw",
        "all2all",
        like_score_p=False,
    ),
]

_TARGET = "int rank, MPI_Aint at, COUNT target_n, MPI_Datatype target_type"
_ONE = "MPI_Datatype type, int rank, MPI_Aint at"


def _one_sided(name: str, parameters: str, rule: str, role: str, *, with_request: bool = True) -> list[MpiOperation]:
    """Return the operation and its variant that makes a request."""
    plain = MpiOperation(name, parameters, "call", rule, "", role)
    if not with_request:
        return [plain]
    return [
        plain,
        replace(
            plain,
            name="R" + name[0].lower() + name[1:],
            parameters=f"{parameters}, MPI_Request *request",
            form="start",
        ),
    ]


_ONE_SIDED = [
    *_one_sided("Put", f"{_FROM}, {_TARGET}, MPI_Win win", "put", "rma"),
    *_one_sided("Get", f"void *to, COUNT n, MPI_Datatype type, {_TARGET}, MPI_Win win", "get", "rma"),
    *_one_sided("Accumulate", f"{_FROM}, {_TARGET}, MPI_Op op, MPI_Win win", "put", "atomic"),
    *_one_sided("Get_accumulate", f"{_FROM}, {_TO}, {_TARGET}, MPI_Op op, MPI_Win win", "get_accumulate", "atomic"),
    *_one_sided(
        "Fetch_and_op",
        f"const void *from, void *to, {_ONE}, MPI_Op op, MPI_Win win",
        "fetch",
        "atomic",
        with_request=False,
    ),
    *_one_sided(
        "Compare_and_swap",
        f"const void *from, const void *compare, void *to, {_ONE}, MPI_Win win",
        "fetch",
        "atomic",
        with_request=False,
    ),
    *(
        MpiOperation(
            name,
            f"{first}MPI_Aint size, DISPLACEMENT unit, MPI_Info info, MPI_Comm comm, {rest}",
            comm="comm",
            role=role,
        )
        for name, first, rest, role in (
            ("Win_create", "void *base, ", "MPI_Win *win", "function"),
            ("Win_allocate", "", "void *base, MPI_Win *win", "allocate"),
            ("Win_allocate_shared", "", "void *base, MPI_Win *win", "allocate"),
        )
    ),
    MpiOperation("Win_create_dynamic", "MPI_Info info, MPI_Comm comm, MPI_Win *win", comm="comm"),
    MpiOperation("Win_free", "MPI_Win *win"),
    MpiOperation("Win_attach", "MPI_Win win, void *base, MPI_Aint size"),
    MpiOperation("Win_detach", "MPI_Win win, const void *base"),
    MpiOperation("Win_fence", "int assertion, MPI_Win win"),
    MpiOperation("Win_lock", "int type, int rank, int assertion, MPI_Win win"),
    MpiOperation("Win_lock_all", "int assertion, MPI_Win win"),
    MpiOperation("Win_post", "MPI_Group group, int assertion, MPI_Win win"),
    MpiOperation("Win_start", "MPI_Group group, int assertion, MPI_Win win"),
    MpiOperation("Win_test", "MPI_Win win, int *flag", polls=True),
    MpiOperation("Win_sync", "MPI_Win win", polls=True),
    *(MpiOperation(f"Win_{name}", "int rank, MPI_Win win") for name in ("unlock", "flush", "flush_local")),
    *(
        MpiOperation(f"Win_{name}", "MPI_Win win")
        for name in ("unlock_all", "flush_all", "flush_local_all", "complete", "wait")
    ),
]

_MADE = "MPI_Comm *made"
_FROM_GROUP_END = f"MPI_Info info, MPI_Errhandler handler, {_MADE}"

_COMMUNICATORS = [
    *(
        MpiOperation(name, f"MPI_Comm comm, {parameters}{_MADE}", comm="comm")
        for name, parameters in (
            ("Comm_create", "MPI_Group group, "),
            ("Comm_create_group", "MPI_Group group, int tag, "),
            ("Comm_dup", ""),
            ("Comm_dup_with_info", "MPI_Info info, "),
            ("Comm_split", "int color, int key, "),
            ("Comm_split_type", "int type, int key, MPI_Info info, "),
            ("Cart_create", "int n, const int dims[], const int periods[], int reorder, "),
            ("Cart_sub", "const int remains[], "),
            ("Graph_create", "int n, const int index[], const int edges[], int reorder, "),
            (
                "Dist_graph_create",
                "int n, const int sources[], const int degrees[], const int dests[], const int weights[], "
                "MPI_Info info, int reorder, ",
            ),
            (
                "Dist_graph_create_adjacent",
                "int sources_n, const int sources[], const int source_weights[], int dests_n, const int dests[], "
                "const int dest_weights[], MPI_Info info, int reorder, ",
            ),
            ("Intercomm_create", "int leader, MPI_Comm peer, int remote_leader, int tag, "),
            ("Intercomm_merge", "int high, "),
        )
    ),
    MpiOperation("Comm_idup", f"MPI_Comm comm, {_MADE}, MPI_Request *request", "start", comm="comm"),
    MpiOperation(
        "Comm_idup_with_info",
        f"MPI_Comm comm, MPI_Info info, {_MADE}, MPI_Request *request",
        "start",
        comm="comm",
        since="4.0",
    ),
    MpiOperation("Comm_create_from_group", f"MPI_Group group, const char *tag, {_FROM_GROUP_END}", since="4.0"),
    MpiOperation(
        "Intercomm_create_from_groups",
        f"MPI_Group own, int leader, MPI_Group remote, int remote_leader, const char *tag, {_FROM_GROUP_END}",
        since="4.0",
    ),
    MpiOperation("Comm_free", "MPI_Comm *comm", comm="*comm"),
    MpiOperation("Comm_disconnect", "MPI_Comm *comm", comm="*comm"),
]

_BEGIN_AND_END = [
    *(MpiOperation(name, "", "own", "init") for name in ("Init", "Init_thread", "Finalize")),
    *(MpiOperation(name, "", "own", "init", since="4.0") for name in ("Session_init", "Session_finalize")),
    MpiOperation("Abort", "", "own", "init"),
]

GROUPS: dict[str, tuple[MpiOperation, ...]] = {
    "Point to point": tuple(_POINT_TO_POINT),
    "Collectives": tuple(_COLLECTIVES),
    "One-sided": tuple(_ONE_SIDED),
    "Communicators": tuple(_COMMUNICATORS),
    "Beginning and end": tuple(_BEGIN_AND_END),
}
OPERATIONS: tuple[MpiOperation, ...] = tuple(operation for group in GROUPS.values() for operation in group)


def names_of(operation: MpiOperation) -> tuple[str, ...]:
    """Return the names of a row's regions: the function, and its variant for large counts if it has one."""
    name = f"MPI_{operation.name}"
    return (name, f"{name}_c") if operation.has_large_variant else (name,)


# What the reader of profiles needs, by the region's name.
ROLES: dict[str, str] = {name: operation.role for operation in OPERATIONS for name in names_of(operation)}
POLLING: frozenset[str] = frozenset(name for operation in OPERATIONS if operation.polls for name in names_of(operation))
ONE_SIDED: frozenset[str] = frozenset(name for name, role in ROLES.items() if role in ("rma", "atomic"))
