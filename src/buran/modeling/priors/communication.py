"""What MPI operations cost: the structure of their run times, with latency, bandwidth and computation left open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Volume(StrEnum):
    """Which of the recorded bytes are the message of the cost model (means over ranks; N: communicator size)."""

    NONE = "none"
    SENT = "sent"
    RECEIVED = "received"
    BOTH = "sent + received"
    SENT_SHARE = "sent / N"
    BOTH_SHARE = "(sent + received) / N"
    ROOT_SENT = "sent x N"
    ROOT_RECEIVED = "received x N"


class CostPart(StrEnum):
    """A summand of a cost model, each with a coefficient of its own."""

    CALL = "calls"  # latency of a message
    STEPS = "calls x log2(N)"  # latency of a tree or of recursive doubling
    PEERS = "calls x (N - 1)"  # latency of messages to everybody
    BYTES = "B"
    SHARED_BYTES = "B (N - 1) / N"  # what does not stay where it is
    STEP_BYTES = "B log2(N)"
    PEER_BYTES = "B (N - 1)"
    OWN_BYTES = "B / N"


@dataclass(frozen=True)
class Operation:
    """Cost model of an MPI operation.

    Attributes
    ----------
    parts
        The summands.
    volume
        What B is.
    source
        Where the model is from.
    others
        Summands that other algorithms have, which MPIs switch to by ranks and bytes: trees that pass the whole message
        on at each level, rings and chains, which take a step for each rank (Thakur, Rabenseifner, Gropp 2005).
    """

    parts: tuple[CostPart, ...]
    volume: Volume
    source: str
    others: tuple[CostPart, ...] = ()


PRIORS = "noise-resilient priors, Table 1"
CHAN = f"{PRIORS}; Chan, Heimlich, Purkayastha, van de Geijn 2007"
ZHANG = f"{PRIORS}; Zhang, Hao, Snir 2017"
BARRIER = "dissemination: Hensgen, Finkel, Manber 1988"
ALLTOALL = "Bruck et al. 1997 (few bytes), pairwise exchange: Thakur, Rabenseifner, Gropp 2005 (many)"
REDUCE_SCATTER = "Chan, Heimlich, Purkayastha, van de Geijn 2007"
SCAN = "recursive doubling: Sanders, Träff 2006"
PEER = f"as send and receive: {ZHANG}"
COMPLETION = f"the operation whose bytes it completes, as send and receive: {ZHANG}"
CREATION = "each rank gives its colour and key to all: Sack, Gropp 2010"
NEIGHBOURS = f"messages to each neighbour: Hoefler, Träff 2009; each {ZHANG}"

_TREE = (CostPart.STEPS, CostPart.SHARED_BYTES)
_REDUCTION = (CostPart.STEPS, CostPart.BYTES, CostPart.SHARED_BYTES)
_MESSAGE = (CostPart.CALL, CostPart.BYTES)
_ALL_TO_ALL = (CostPart.STEPS, CostPart.PEERS, CostPart.SHARED_BYTES, CostPart.STEP_BYTES)
_RING = (CostPart.PEERS,)
_RING_OR_TREE = (CostPart.PEERS, CostPart.STEP_BYTES)
_AT_THE_ROOT = (CostPart.PEERS, CostPart.OWN_BYTES)  # the mean rank sends its own and leaves
_CHAIN = (CostPart.PEERS, CostPart.PEER_BYTES)

_BEGINS = "begins; its bytes belong to its completion"
_PREPARES = "prepares; its bytes belong to its start or completion"
_COSTS = (
    ("Send Ssend Bsend Rsend", Operation(_MESSAGE, Volume.SENT, ZHANG)),
    ("Recv", Operation(_MESSAGE, Volume.RECEIVED, ZHANG)),
    ("Mrecv", Operation(_MESSAGE, Volume.RECEIVED, PEER)),
    ("Sendrecv Sendrecv_replace", Operation(_MESSAGE, Volume.BOTH, PEER)),
    ("Bcast", Operation((CostPart.STEPS, CostPart.BYTES), Volume.RECEIVED, CHAN, _RING_OR_TREE)),
    ("Scatter", Operation(_TREE, Volume.ROOT_SENT, CHAN, _RING)),
    ("Scatterv", Operation(_TREE, Volume.ROOT_SENT, f"as scatter: {CHAN}", _RING)),
    ("Gather", Operation(_TREE, Volume.ROOT_RECEIVED, CHAN, _AT_THE_ROOT)),
    ("Gatherv", Operation(_TREE, Volume.ROOT_RECEIVED, f"as gather: {CHAN}", _AT_THE_ROOT)),
    ("Allgather", Operation(_TREE, Volume.RECEIVED, CHAN, _RING)),
    ("Allgatherv", Operation(_TREE, Volume.RECEIVED, f"as allgather: {CHAN}", _RING)),
    ("Reduce", Operation(_REDUCTION, Volume.SENT, CHAN, _RING_OR_TREE)),
    ("Allreduce", Operation(_REDUCTION, Volume.SENT_SHARE, CHAN, _RING_OR_TREE)),
    ("Barrier", Operation((CostPart.STEPS,), Volume.NONE, BARRIER, _RING)),
    ("Alltoall Alltoallv Alltoallw", Operation(_ALL_TO_ALL, Volume.SENT, ALLTOALL)),
    ("Reduce_scatter Reduce_scatter_block", Operation(_TREE, Volume.SENT, REDUCE_SCATTER, _RING_OR_TREE)),
    ("Scan Exscan", Operation((CostPart.STEPS, CostPart.STEP_BYTES), Volume.BOTH_SHARE, SCAN, _CHAIN)),
    ("Wait Waitall Waitany", Operation(_MESSAGE, Volume.BOTH, COMPLETION)),
    ("Start Startall", Operation(_MESSAGE, Volume.SENT, PEER)),
    (
        "Neighbor_allgather Neighbor_allgatherv Neighbor_alltoall Neighbor_alltoallv Neighbor_alltoallw",
        Operation(_MESSAGE, Volume.BOTH, NEIGHBOURS),
    ),
    # Non-blocking messages leave their bytes where they are posted; non-blocking collectives where they are completed.
    ("Isend Issend Ibsend Irsend", Operation(_MESSAGE, Volume.SENT, PEER)),
    ("Irecv Imrecv", Operation((CostPart.CALL,), Volume.NONE, PEER)),
    (
        "Comm_create Comm_dup Comm_dup_with_info Comm_split Comm_split_type Cart_create Cart_sub Graph_create "
        "Dist_graph_create Dist_graph_create_adjacent",
        Operation((CostPart.STEPS, CostPart.PEERS), Volume.NONE, CREATION),
    ),
)
_TABLE = {name: operation for names, operation in _COSTS for name in names.split()}
_COLLECTIVES = [
    name
    for name, operation in _TABLE.items()
    if (CostPart.STEPS in operation.parts and operation.source != CREATION) or name.startswith("Neighbor_")
]
_TABLE |= {f"I{name[0].lower()}{name[1:]}": Operation((CostPart.CALL,), Volume.NONE, _BEGINS) for name in _COLLECTIVES}
_TABLE |= {
    f"{name}_init": Operation((CostPart.CALL,), Volume.NONE, _PREPARES)
    for name in (*_COLLECTIVES, "Send", "Ssend", "Bsend", "Rsend", "Recv")
}

OPERATIONS: Mapping[str, Operation] = MappingProxyType({f"MPI_{name}": operation for name, operation in _TABLE.items()})

POLLS = frozenset(
    f"MPI_{name}"
    for name in (
        "Test", "Testall", "Testany", "Testsome", "Waitsome", "Iprobe", "Improbe", "Parrived", "Win_test",
        "Request_get_status", "Request_get_status_all", "Request_get_status_any", "Request_get_status_some",
    )
)  # fmt: skip
"""Operations that are called until something has happened: how often depends on how long that takes."""


def operation_of(name: str) -> Operation | None:
    """Return the cost model of an MPI operation; None if the table has none.

    Variants for large counts (``MPI_Send_c``) are the operations they are variants of.
    """
    return OPERATIONS.get(name.removesuffix("_c"))
