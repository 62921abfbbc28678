"""A campaign whose program is a description, made concrete."""

from __future__ import annotations

from pathlib import Path

import yaml

from buran.campaign.config import Campaign, below
from buran.campaign.layout import Layout
from buran.errors import ConfigError
from buran.files import digest
from buran.measure.source import local_source
from buran.measure.target import Target
from buran.simulate.backend import SimulatedBackend, prepare_source
from buran.simulate.program import Program, read_program


def program_of_campaign(campaign: Campaign) -> Program:
    """Read the description that a campaign names.

    Raises
    ------
    ConfigError
        It names none, or the description has a mistake.
    """
    return read_program(_path(campaign), campaign.parameters)


def _path(campaign: Campaign) -> Path:
    if campaign.config.program is None:
        raise ConfigError(
            "the campaign names no simulated program",
            where=f"{campaign.path}, key program",
            hint="name a description of it, or the truth.json of a generated program",
        )
    return below(campaign.folder, campaign.config.program)


def open_simulated(campaign: Campaign, layout: Layout) -> Target:
    """Read the description of the program; it becomes the source.

    Raises
    ------
    ConfigError
        It has a mistake.
    """
    path = _path(campaign)
    program = program_of_campaign(campaign)
    description = yaml.safe_load(path.read_text())
    folder = prepare_source(description, layout.root / "sources" / digest(description))
    backend = SimulatedBackend(program, folder, campaign.parameters, campaign.config.seed)
    return Target(campaign, local_source(folder), backend, ())
