"""What computing costs on a real machine: seconds for each basic block of each call path, from measured runs."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from buran.campaign.layout import results_folder
from buran.campaign.mistakes import listed
from buran.campaign.point import Value
from buran.files import Stored, digest

CALIBRATION = "calibration.json"
"""File in a folder of results."""


@dataclass(frozen=True)
class Calibration(Stored):
    """Cost of computing by call path, measured at points, and modelled between them.

    The logarithm of the cost is a sum of one function for each parameter, each piecewise linear in the parameter's
    logarithm (as it is, where values are not positive). So runs along lines are enough.

    Attributes
    ----------
    parameters
        Names, in the order of the numbers of a point.
    parallel
        Parameters that ranks depend on: beyond their values, the nearest one counts.
    choices
        Parameters whose numbers stand for choices.
    points
        Where the program was measured, sorted; then those where only its models tell, beyond the measured sizes.
    depths, symbols
        Shape (call path,), callers before their callees; the first one is the root, of depth 0.
    seconds_per_block
        Shape (call path, point): the least of all repetitions; None where nothing was computed.
    base
        Shape (call path,): the model's constant; None for a call path in which nothing was ever computed.
    effects
        By parameter, shape (call path, value): what is added to the constant, for each of its sorted values.
    uncertainty
        Mean relative error of the model where an inner value of each parameter was left out, weighted by time; None
        without inner values.
    modelled
        How many of the points, the last ones, were not measured.
    uncertainty_beyond
        How far the program's time at these may be off, as a share of it; None without them.
    """

    kind_of_file: ClassVar[str] = "calibration"
    schema_read: ClassVar[str | int] = "buran-calibration/1"
    formerly: ClassVar[Mapping[str, str]] = {"doubt": "uncertainty", "doubt_beyond": "uncertainty_beyond"}

    parameters: tuple[str, ...]
    parallel: tuple[str, ...]
    choices: tuple[str, ...]
    points: tuple[tuple[float, ...], ...]
    depths: tuple[int, ...]
    symbols: tuple[str, ...]
    seconds_per_block: tuple[tuple[float | None, ...], ...]
    base: tuple[float | None, ...]
    effects: Mapping[str, tuple[tuple[float, ...], ...]]
    uncertainty: float | None
    modelled: int = 0
    uncertainty_beyond: float | None = None

    @cached_property
    def content(self) -> str:
        """Digest of everything that it says, that of older versions: runs in the store have it in their names."""
        former = {now: before for before, now in self.formerly.items()}
        said = {former.get(name, name): value for name, value in asdict(self).items()}
        if not self.modelled:
            del said["modelled"], said["doubt_beyond"]
        return digest(said)

    def values(self, parameter: str) -> list[float]:
        """Return the values of a parameter at its points, sorted."""
        return sorted({point[self.parameters.index(parameter)] for point in self.points})

    def uncovered(self, point: Mapping[str, Value], others: Collection[str] = ()) -> str | None:
        """Say why a point is not covered; None where it is.

        Parameters
        ----------
        others
            Parameters that the program does not see.
        """
        for name in sorted(point.keys() - set(self.parameters) - set(others)):
            return f"it has no parameter {name!r}"
        for name in self.parameters:
            values = self.values(name)
            if name not in point:
                if len(values) > 1:
                    return f"it has a parameter {name!r}, which the campaign does not have"
            elif name in self.choices and point[name] not in values:
                return f"{name} was {listed(values)} there"
            elif name not in self.parallel and not values[0] <= point[name] <= values[-1]:
                return f"{name} was {values[0]:g} to {values[-1]:g} there"
        return None

    def costs(self, point: Mapping[str, Value]) -> str:
        """Return what basic blocks cost at a covered point, for Buran's runtime: a call path a line.

        A call path in which nothing was computed costs what its caller does.
        """
        coordinates = tuple(
            float(min(max(point.get(name, values[0]), values[0]), values[-1]))
            for name in self.parameters
            for values in [self.values(name)]
        )
        at = self.points.index(coordinates) if coordinates in self.points else None
        lines: list[str] = []
        above: list[float] = []
        for row, (depth, symbol) in enumerate(zip(self.depths, self.symbols, strict=True)):
            cost = None if at is None else self.seconds_per_block[row][at]
            cost = self._modelled(row, coordinates) if cost is None else cost
            cost = above[depth - 1] if cost is None else cost
            above[depth:] = [cost]
            lines.append(cost_line(depth, cost, symbol))
        return "".join(lines)

    def _modelled(self, row: int, coordinates: Sequence[float]) -> float | None:
        base = self.base[row]
        if base is None:
            return None
        for name, coordinate in zip(self.parameters, coordinates, strict=True):
            base += sum(
                weight * self.effects[name][row][i] for i, weight in weights(self.values(name), coordinate).items()
            )
        return math.exp(base)


def cost_line(depth: int, seconds_per_block: float, symbol: str) -> str:
    """Return a line of the file by which the runtime knows what basic blocks cost."""
    return f"{depth} {seconds_per_block!r} {symbol}\n"


def weights(values: Sequence[float], value: float) -> dict[int, float]:
    """Return, by the place of a measured value, how much it counts at a value: the two neighbours' shares."""
    right = min(max(bisect_right(values, value), 1), len(values) - 1)
    if len(values) == 1 or value in values:
        return {values.index(value) if value in values else 0: 1.0}
    scale = math.log if values[0] > 0 else float
    low, high, middle = (scale(number) for number in (values[right - 1], values[right], value))
    share = (middle - low) / (high - low)
    return {right - 1: 1 - share, right: share}


def calibration_file(path: Path) -> Path:
    """Return where the calibration of a campaign file, a folder of results or a file of its own lies."""
    return path if path.suffix == ".json" else results_folder(path) / CALIBRATION
