"""How a wanted size is shared between CP parts and trees, and how much each of them says: tried on left-out points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from buran.tensor.axes import Array, Whole
from buran.tensor.boost import Bins, Boosting, Trees, grow
from buran.tensor.smooth import Basis, PartOptions
from buran.tensor.tuning import BLEND


@dataclass(frozen=True)
class UserChoices:
    """What the user fixed.

    Attributes
    ----------
    nodes, rank, ridge, smooth
        See `PartOptions`; None: chosen by validation.
    members
        CP parts; None: as many as the size allows, up to 5.
    trees
        Boosted trees; None: as many as the size allows.
    size_kb
        Of the model's file, in kB.
    """

    nodes: int | None = None
    rank: int | None = None
    ridge: float | None = None
    smooth: float | None = None
    members: int | None = None
    trees: int | None = None
    size_kb: float = 20.0


@dataclass(frozen=True)
class Room:
    """What fits into the wanted size.

    Attributes
    ----------
    room, part, tree
        Bytes: for CP parts and trees together, of one part, of one tree.
    most_trees
        That fit beside one part.
    wanted_members
        What the user fixed.
    """

    room: float
    part: int
    tree: int
    depth: int
    most_trees: int
    wanted_members: int | None

    @classmethod
    def of(cls, bases: Sequence[Basis], options: PartOptions, choices: UserChoices, count: int) -> Room:
        """Measure parts and trees."""
        nodes = sum(basis.size for basis in bases)
        room = max(1000 * choices.size_kb - 2500 - 60 * len(bases) - 5 * nodes, 0)
        part = nodes * (2 * options.rank + 4) + 500  # arrays have headers
        depth = 4 if count < 1000 else 5 if choices.size_kb < 50 else 6
        tree = 2 * depth + (2 << depth)
        fit = int(max(room - min((choices.members or 1) * part, 0.5 * room), 0) / tree)
        fit = min(fit, max(count // 2, BLEND.fewest_trees))
        return cls(room, part, tree, depth, fit if choices.trees is None else choices.trees, choices.members)

    def members(self, trees: int) -> int:
        """Return the number of CP parts that fit beside so many trees."""
        return self.wanted_members or int(np.clip((self.room - trees * self.tree) / self.part, 1, BLEND.most_parts))


@dataclass(frozen=True, eq=False)
class Trial:
    """What trees are tried on.

    Attributes
    ----------
    several
        Shape (part, point): predictions of CP parts that have not seen the observation.
    alone
        Shape (point,): main effects.
    """

    bins: Bins
    values: Array
    several: Array
    alone: Array
    inside: Whole
    outside: Whole

    def attempt(self, share: float, boosting: Boosting, room: Room, seed: int) -> tuple[float, float, int, Array]:
        """Return the smallest error, and its share of CP parts alone, number of trees, and residuals."""
        base = share * self.several.mean(axis=0) + (1 - share) * self.alone
        bins, true = self.bins[:, self.outside], self.values[self.outside]
        grown = np.zeros(len(true))
        best = (np.inf, 0.0, 0, grown)

        def score(number: int) -> None:
            nonlocal best
            parts = self.several[: room.members(number), self.outside].mean(axis=0)
            whole = share * parts + (1 - share) * self.alone[self.outside] + grown
            for mixed in BLEND.mixed:
                rest = true - (1 - mixed) * whole - mixed * parts
                error = float(np.abs(rest).mean())
                if error < best[0]:
                    best = (error, mixed, number, rest)

        def watch(number: int, tree: Trees) -> bool:
            np.add(grown, tree.predict(bins), out=grown)
            if number % 10 == 0 or number == boosting.trees:
                score(number)
            return number > 10 * BLEND.patience + best[2]

        score(0)
        inside = self.inside
        grow(self.bins[:, inside], self.values[inside] - base[inside], boosting, np.random.default_rng(seed), watch)
        return best


def choose_trees(
    tried: Trial, boosting: Boosting, room: Room, random: np.random.Generator
) -> tuple[float, float, Boosting, Array]:
    """Choose on the first fold; return what `Training` calls base, mixed and boosting, and the errors there."""
    seed = int(random.integers(2**31))

    def at(share: float, factor: float = 1.0) -> Boosting:
        rate = np.clip(10 / boosting.trees, 0.05, 0.25) if share == 1 else np.clip(25 / boosting.trees, 0.1, 0.25)
        return replace(boosting, rate=float(factor * rate))

    candidates = [(share, at(share)) for share in BLEND.shares]
    attempts = [tried.attempt(share, candidate, room, seed) for share, candidate in candidates]
    best = min(range(len(attempts)), key=lambda i: attempts[i][0])
    for factor in BLEND.rates:
        candidates.append((candidates[best][0], at(candidates[best][0], factor)))
        attempts.append(tried.attempt(*candidates[-1], room, seed))
    best = min(range(len(attempts)), key=lambda i: attempts[i][0])
    share, candidate = candidates[best]
    _, mixed, number, rest = attempts[best]
    # With more observations than were tried, more trees are worth their room, but not that of the CP parts.
    more = np.sqrt(0.75 * len(tried.values) / len(tried.inside))
    beside = max(int((room.room - room.members(number) * room.part) / room.tree), number)
    return share, mixed, replace(candidate, trees=min(int(max(more, 1.0) * number), boosting.trees, beside)), rest
