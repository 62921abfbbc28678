"""The measurement system of campaigns whose program is a description."""

from __future__ import annotations

from pathlib import Path

import yaml

from buran.campaign.config import Campaign
from buran.campaign.document import below
from buran.errors import ConfigError
from buran.files import digest
from buran.measurement.backends.base import MeasurementSystem
from buran.measurement.source import SourceTree, local_source
from buran_studies.simulate.backend import SimulatedBackend, prepare_source
from buran_studies.simulate.program import Program, read_program


def program_of_campaign(campaign: Campaign) -> Program:
    """Read the description that a campaign names.

    Raises
    ------
    ConfigError
        It names none, or the description has a mistake.
    """
    return read_program(_path(campaign), campaign.parameters)


def _path(campaign: Campaign) -> Path:
    if campaign.config.simulated is None:
        raise ConfigError(
            "the campaign names no simulated program",
            where=f"{campaign.path}, key program",
            hint="name a description of it, or the truth.json of a generated program",
        )
    return below(campaign.folder, campaign.config.simulated)


class Simulated(MeasurementSystem):
    """Nothing is measured: everything follows from a description, which becomes the source."""

    name = "simulated"

    def open(self, campaign: Campaign, scratch: Path) -> SimulatedBackend:
        """Read the description; raises `ConfigError` if it has a mistake."""
        program = program_of_campaign(campaign)
        return SimulatedBackend(program, _source_folder(campaign, scratch), campaign.parameters, campaign.config.seed)

    def source(self, campaign: Campaign, scratch: Path) -> SourceTree:
        """Return a folder with the description alone."""
        program_of_campaign(campaign)  # its mistakes show first
        return local_source(_source_folder(campaign, scratch))


def _source_folder(campaign: Campaign, scratch: Path) -> Path:
    description = yaml.safe_load(_path(campaign).read_text())
    return prepare_source(description, scratch / "sources" / digest(description))


SIMULATED = Simulated()
