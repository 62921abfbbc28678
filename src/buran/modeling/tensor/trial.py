"""How a wanted size is shared between CP parts and trees: tried on left-out points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from buran.modeling.numerics.tuning import STEPS
from buran.modeling.tensor.axes import Array, Whole
from buran.modeling.tensor.boost import Bins, Boosting, Trees, grow
from buran.modeling.tensor.smooth import Basis, PartOptions

# CP parts. Tuned: first 6; changed while the method was built, no figures kept (evidence/tensor.md).
MOST_PARTS = 10


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
        Size of the model's file, in kB.
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
    most_trees: int
    wanted_members: int | None

    @classmethod
    def of(cls, bases: Sequence[Basis], options: PartOptions, choices: UserChoices) -> Room:
        """Measure parts and trees."""
        nodes = sum(basis.size for basis in bases)
        room = max(1000 * choices.size_kb - 2500 - 60 * len(bases) - 5 * nodes, 0)
        part = nodes * (2 * options.rank + 4) + 500  # arrays have headers
        tree = 2 * Boosting.depth + (2 << Boosting.depth)
        fit = int(max(room - min((choices.members or 1) * part, 0.5 * room), 0) / tree)
        return cls(room, part, tree, fit if choices.trees is None else choices.trees, choices.members)

    def members(self, trees: int) -> int:
        """Return the number of CP parts that fit beside so many trees."""
        return self.wanted_members or int(np.clip((self.room - trees * self.tree) / self.part, 1, MOST_PARTS))


@dataclass(frozen=True, eq=False)
class Trial:
    """What trees are tried on.

    Attributes
    ----------
    several
        Shape (part, point): predictions of CP parts that have not seen the observation.
    alone
        Shape (point,): those of main effects.
    """

    bins: Bins
    values: Array
    several: Array
    alone: Array
    inside: Whole
    outside: Whole

    def attempt(self, share: float, room: Room, random: np.random.Generator) -> tuple[int, Array]:
        """Return the number of trees with the smallest error at the observations outside, and the errors there."""
        base = share * self.several.mean(axis=0) + (1 - share) * self.alone
        bins, grown = self.bins[:, self.outside], np.zeros(len(self.outside))
        best = (np.inf, 0, grown)

        def watch(number: int, tree: Trees | None = None) -> bool:
            nonlocal best
            if tree is not None:
                np.add(grown, tree.predict(bins), out=grown)
            parts = self.several[: room.members(number), self.outside].mean(axis=0)
            rest = (self.values - (1 - share) * self.alone)[self.outside] - share * parts - grown
            best = min(best, (float(np.abs(rest).mean()), number, rest), key=lambda tested: tested[0])
            return number > STEPS + best[1]

        watch(0)
        grow(self.bins[:, self.inside], (self.values - base)[self.inside], Boosting(room.most_trees), random, watch)
        return best[1:]
