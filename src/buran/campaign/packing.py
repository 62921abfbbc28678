"""Small runs side by side on a node: which of those that wait start now, and how long all of them take."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Need:
    """What runs that go on one after the other hold all the time.

    Attributes
    ----------
    memory_mb
        None where nobody says.
    seconds
        That they are expected to take.
    """

    cores: int
    memory_mb: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class NodeKind:
    """What each node of a partition has.

    Attributes
    ----------
    cpus
        What is charged: hardware threads.
    """

    cores: int
    cpus: int
    memory_mb: int | None = None


@dataclass
class NodeRoom:
    """What is free of a node.

    Attributes
    ----------
    memory_mb
        None where it is not known.
    """

    cores: int
    memory_mb: int | None = None

    def fits(self, need: Need) -> bool:
        """Tell whether something can start now."""
        memory_fits = self.memory_mb is None or need.memory_mb is None or need.memory_mb <= self.memory_mb
        return need.cores <= self.cores and memory_fits

    def take(self, need: Need, sign: int = 1) -> None:
        """Let it start; with the sign -1, end."""
        self.cores -= sign * need.cores
        if self.memory_mb is not None:
            self.memory_mb -= sign * (need.memory_mb or 0)


@dataclass
class WaitingNeeds:
    """What has not started, the widest first and among these the longest: small ones fill the gaps."""

    needs: Sequence[Need]
    _order: list[int] = field(init=False)
    _narrowness: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._order = sorted(range(len(self.needs)), key=lambda n: (-self.needs[n].cores, -self.needs[n].seconds, n))
        self._narrowness = [-self.needs[number].cores for number in self._order]

    def __bool__(self) -> bool:
        return bool(self._order)

    def pop(self, room: NodeRoom) -> int | None:
        """Return the first that fits, which waits no longer; None if none does."""
        for index in range(bisect_left(self._narrowness, -room.cores), len(self._order)):
            if room.fits(self.needs[self._order[index]]):
                del self._narrowness[index]
                return self._order.pop(index)
        return None


def within(need: Need, room: NodeRoom) -> Need:
    """Return a need that can be met: what wants more than there is gets all, alone."""
    memory = need.memory_mb
    if memory is not None and room.memory_mb is not None:
        memory = min(memory, room.memory_mb)
    return Need(min(need.cores, room.cores), memory, need.seconds)


def side_by_side(need: Need, room: NodeRoom) -> int:
    """Return how many of the same fit next to each other, at least one."""
    met = within(need, room)
    fit = room.cores // met.cores
    if met.memory_mb and room.memory_mb is not None:
        fit = min(fit, room.memory_mb // met.memory_mb)
    return max(fit, 1)


def makespan_s(needs: Iterable[Need], room: NodeRoom) -> float:
    """Return how long all take, if each that fits starts as soon as there is room."""
    met = [within(need, room) for need in needs]
    free, waiting = NodeRoom(room.cores, room.memory_mb), WaitingNeeds(met)
    running: list[tuple[float, int]] = []
    now_s = 0.0
    while waiting or running:
        while (number := waiting.pop(free)) is not None:
            free.take(met[number])
            heapq.heappush(running, (now_s + met[number].seconds, number))
        now_s, number = heapq.heappop(running)
        free.take(met[number], -1)
    return now_s
