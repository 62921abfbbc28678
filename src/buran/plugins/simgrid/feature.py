"""What simulated machines add to campaigns; heavier modules are imported where they are used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from buran.features import Feature, Key
from buran.plugins.simgrid.keys import KEY, MachineKeys

if TYPE_CHECKING:
    from buran.campaign.config import Campaign
    from buran.campaign.mistakes import Mistake
    from buran.campaign.shape import CampaignFile
    from buran.loop.history import History
    from buran.measure.finding import Finding
    from buran.plugins.simgrid.simulator import SimGrid
    from buran.report.content import Report


def _mistakes(config: CampaignFile, environment: str) -> Iterable[Mistake]:
    from buran.plugins.simgrid.checks import mistakes

    return mistakes(config, environment)


def _misfits(campaign: Campaign) -> Iterable[Mistake]:
    from buran.plugins.simgrid.checks import misfits

    return misfits(campaign)


def _identity(campaign: Campaign) -> Mapping[str, object]:
    from buran.plugins.simgrid.simulator import identity_of

    return identity_of(campaign)


def _simulator(campaign: Campaign) -> SimGrid | None:
    from buran.plugins.simgrid.simulator import simulator_of

    return simulator_of(campaign)


def _findings() -> Iterator[Finding]:
    from buran.plugins.simgrid.mpi import finding

    yield finding()


def _write(history: History, report: Report, folder: Path) -> None:
    from buran.plugins.simgrid.calibrate import write_calibration

    write_calibration(history, report, folder)


FEATURE = Feature(
    KEY,
    Key(
        MachineKeys | None,
        None,
        "A machine simulated by SimGrid: programs really run, all ranks in one process, and times are those of this "
        "machine. By default, the machine that Buran runs on.",
    ),
    mistakes=_mistakes,
    misfits=_misfits,
    identity=_identity,
    simulator=_simulator,
    findings=_findings,
    write=_write,
)
