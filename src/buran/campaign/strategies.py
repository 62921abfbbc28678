"""The strategies and measurement systems that campaign files name, and what strategies say of themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from buran.errors import PluginError
from buran.extensions import ExtensionPoint


@dataclass(frozen=True)
class Abilities:
    """What a strategy can do.

    Attributes
    ----------
    all_at_once
        It chooses all its points before the first run, each with the campaign's repetitions, and then needs the method
        `indices`. Without, points are chosen by what was measured at others.
    weighs_runs
        It decides of each single run, and of how many make a round; without, a round is a few of the best rated runs.
    accuracy
        It stops when predictions are accurate enough, and then needs the method `width_at_target`.
    patience
        It stops after some rounds without a better fit.
    base_repetitions
        Runs of each of the points that it begins with, by default; None if it begins without a base.
    base
        Of these points, by the name that campaign files have for them.
    gain
        What the score of a suggestion is a share of, for tables; empty if scores have no unit.
    """

    all_at_once: bool = False
    weighs_runs: bool = False
    accuracy: bool = False
    patience: bool = False
    base_repetitions: int | None = None
    base: str = "cheapest"
    gain: str = ""

    def __post_init__(self) -> None:
        if self.all_at_once and (self.weighs_runs or self.accuracy or self.patience):
            raise ValueError("a strategy that chooses all at once has no rounds to weigh runs or to stop after")

    @property
    def keys(self) -> frozenset[str]:
        """Keys of a campaign file's `strategy` that mean something to it, in addition to those that all have."""
        heeded = {
            "batch": not self.all_at_once,
            "most_repetitions": not self.all_at_once,
            "base": self.base_repetitions is not None,
            "base_repetitions": self.base_repetitions is not None,
            "accuracy_percent": self.accuracy,
            "patience": self.patience,
        }
        return frozenset(key for key, heeds in heeded.items() if heeds)


MOST_REPETITIONS = 10
"""Runs of one point at most, of strategies that decide of that, by default."""
KEYS = Abilities(accuracy=True, patience=True, base_repetitions=1).keys
"""Keys of a campaign file's `strategy` that some strategies heed."""


class Declared(Protocol):
    """What states its abilities."""

    @property
    def abilities(self) -> Abilities:
        """What it can do."""


BUILT_IN = {
    "full": "buran.planning.unguided:FULL",
    "lines": "buran.planning.unguided:LINES",
    "design": "buran.planning.design:DESIGN",
    "cpf": "buran.planning.unguided:CHEAPEST",
    "gpr": "buran.planning.gpr:PROCESS",
    "hybrid": "buran.planning.gpr:HYBRID",
    "bayes": "buran.planning.gpr:IMPROVEMENT",
    "ucb": "buran.planning.gpr:CONFIDENCE",
    "random": "buran.planning.unguided:RANDOM",
    "grid": "buran.planning.unguided:GRID",
    "tensor": "buran.planning.tensor_guided:TENSOR",
}
STRATEGIES: ExtensionPoint[Declared] = ExtensionPoint("strategy", "buran.strategies", Declared, BUILT_IN)


def abilities_of(name: str) -> Abilities:
    """Return what a strategy says of itself.

    Raises
    ------
    UsageError
        There is none of this name.
    PluginError
        It does not work, or its abilities are none.
    """
    abilities = STRATEGIES.load(name).abilities
    if not isinstance(abilities, Abilities):
        raise PluginError(
            f"the strategy {name!r} cannot be used",
            why=f"its abilities are of type {type(abilities).__name__}",
            hint="its author makes them an object of buran.campaign.strategies.Abilities",
        )
    return abilities


BACKENDS: ExtensionPoint[object] = ExtensionPoint(
    "backend",
    "buran.backends",
    object,
    {
        "embedded": "buran.measurement.backends.embedded:EMBEDDED",
        "command": "buran.measurement.backends.command:COMMAND",
    },
    {"simulated": "buran-studies"},
)
