"""A campaign opened for work: its file, its folders and, when needed, its target on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from buran.campaign.config import Campaign
from buran.campaign.layout import Layout
from buran.campaign.load import load_campaign
from buran.crash import shown_error
from buran.errors import Exit, ToolError, UsageError
from buran.features import FEATURES, Forerunner
from buran.files import make_folder
from buran.measurement.earlier_runs import RecordedBackend, recorded_target
from buran.measurement.machine.process import Interrupted
from buran.measurement.schedulers.base import Partition, spread
from buran.measurement.target import Target, open_target


@dataclass(frozen=True)
class Session:
    """A campaign with its paths; the target is opened on first use because that may build tools.

    Attributes
    ----------
    stands_for
        Measured target that is looked at instead of today's.
    to_read
        Whether nothing is to be measured: the measurement system then may be missing here.
    """

    campaign: Campaign
    stands_for: str | None = None
    to_read: bool = False

    @cached_property
    def layout(self) -> Layout:
        """Absolute paths."""
        return Layout(self.campaign.results_root)

    @cached_property
    def earlier(self) -> Forerunner | None:
        """The campaign that this one begins with; None without one."""
        found = (feature.forerunner(self.campaign) for feature in FEATURES if feature.forerunner is not None)
        return next((earlier for earlier in found if earlier is not None), None)

    @cached_property
    def partitions(self) -> dict[str | None, Partition]:
        """What its runs are spread over, by name; a partition is there once runs were to be made in it."""
        paths = {name: self.layout.partition(name) for name in self.campaign.partitions}
        return {name: Partition.read(path) for name, path in paths.items() if path.is_file()}

    def in_partitions(self) -> Session:
        """Return the same with runs spread over the nodes of the partitions that are known."""
        return replace(self, campaign=spread(self.campaign, self.partitions)) if self.partitions else self

    @property
    def relative_paths(self) -> Layout:
        """Paths relative to the campaign's results folder, for the workflow."""
        return Layout(Path())

    @cached_property
    def target(self) -> Target:
        """Source, backend and identity."""
        make_folder(self.layout.root)
        try:
            target = open_target(self.campaign, self.layout)
        except ToolError as error:
            if not self.to_read:
                raise
            target = recorded_target(self.campaign, self.layout, error)
        return target if self.stands_for is None else replace(target, stands_for=self.stands_for)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is missing here of what had measured it, in sentences."""
        backend = self.target.backend
        return backend.notes if isinstance(backend, RecordedBackend) else ()

    @property
    def id(self) -> str:
        """Identity of the whole question, part of the paths of plans and models."""
        return self.target.campaign_id


def open_session(path: Path, *, base_models: bool = True, to_read: bool = False) -> Session:
    """Open a campaign file, and look at the base models and the measurements it names.

    Parameters
    ----------
    base_models
        Whether these are looked at.
    to_read
        As in `Session`.

    Raises
    ------
    ConfigError
        The file has mistakes, or something that it names.
    """
    campaign = load_campaign(path)
    session = Session(campaign, to_read=to_read).in_partitions()
    if base_models:
        from buran.workflow.correct import check_base_models

        check_base_models(campaign)
        _ = session.earlier  # mistakes show before anything runs
    return session


def _unchanged(session: Session, campaign_id: str) -> None:
    """Refuse to continue under the identity of a changed campaign file."""
    if session.id != campaign_id:
        raise UsageError(
            "the campaign changed while it runs",
            where=session.campaign.path,
            why="its file, the target's sources, the compiler, the MPI or Buran are not what they were at the start",
            hint="run it again; what is measured stays measured",
        )


@contextmanager
def step(snakemake: Any) -> Iterator[Session]:
    """Run a rule's script: log to the rule's log file, show errors without a traceback."""
    config = snakemake.config
    with logged(Path(snakemake.log[0]), Path(config["campaign_file"]), config["campaign_id"]) as session:
        yield session


@contextmanager
def logged(log: Path, campaign_file: Path, campaign_id: str) -> Iterator[Session]:
    """Open a campaign in a process of its own; errors go into a log, and end the process with their exit code."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as file:
        try:
            session = open_session(campaign_file, base_models=False)
            _unchanged(session, campaign_id)
            yield session
        except Interrupted:
            print("interrupted", file=file)
            sys.exit(int(Exit.INTERRUPTED))
        except Exception as error:
            shown = shown_error(error)
            print(f"error: {shown}", file=file)
            sys.exit(int(shown.exit_code))
