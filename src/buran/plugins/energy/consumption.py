"""What a run consumes in energy, as schedulers can tell it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from buran.profiles.metrics import Metric

if TYPE_CHECKING:
    from buran.campaign.shape import CampaignFile

ENERGY = Metric("energy", "J", "exclusive", "DOUBLE", "Energy", "Of the whole program: of its processors, or nodes")


def is_requested(config: CampaignFile) -> bool:
    """Return whether a campaign asks for the energy of its runs."""
    return bool(getattr(config, ENERGY.name))


@dataclass(frozen=True)
class Consumption:
    """What a run consumed.

    Attributes
    ----------
    joules
        None where it is not known.
    source
        What counted it: a scheduler by its name, or an interface of the machine.
    parts
        Joules by zone, those that are contained in others too.
    why_unknown
        In words; empty where it is known.
    """

    joules: float | None = None
    source: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)
    why_unknown: str = ""


class EnergyMeter(Protocol):
    """Measures what is consumed from its making on."""

    def sample(self) -> None:
        """Look, so that nothing is missed; to be called every few seconds."""

    def read(self) -> Consumption:
        """Return what was consumed."""


@dataclass(frozen=True)
class NoMeter:
    """Says why there is none."""

    why: str

    def sample(self) -> None:
        """Do nothing."""

    def read(self) -> Consumption:
        """Return the reason."""
        return Consumption(why_unknown=self.why)
