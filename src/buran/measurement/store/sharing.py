"""What a record says of cores that were shared: the ledger keeps it, so that nobody reads all records for it."""

from __future__ import annotations

from typing import NamedTuple

from buran.campaign.plan import Mode
from buran.campaign.records import RunRecord


class Sharing(NamedTuple):
    """What the record of a run says of cores that were shared.

    Attributes
    ----------
    machine
        That is simulated.
    is_real
        Whether its times are those of a clock.
    share
        Share of the time of computation in which a core worked for the run, if that was measured.
    load, switches
        When it began, and how often others took a core from it.
    stolen
        Share of its cores that the host gave to others.
    clock_missing
        Why times of computation are not CPU times, if they are not.
    had_neighbours
        Whether its times were taken while other runs of its job could go on next to it on its node.
    """

    point: str
    machine: str | None
    is_real: bool
    is_crowded: bool
    share: float | None
    load: float | None
    switches: int
    stolen: float
    clock_missing: str | None
    had_neighbours: bool = False

    @classmethod
    def of(cls, record: RunRecord) -> Sharing:
        """Read a record."""
        is_timed, load = record.mode is Mode.TIME and bool(record.computation), (record.before or {}).get("load")
        return cls(
            record.point.key,
            record.machine,
            record.clock == "real",
            is_crowded(record),
            _share(record) if is_timed else None,
            float(load[0]) if is_timed and load else None,
            (record.involuntary_switches or 0) if is_timed else 0,
            _stolen(record),
            record.cpu_clock_missing,
            record.own_cores is not None and record.mode is not Mode.EFFORT,
        )


def is_crowded(record: RunRecord) -> bool:
    """Tell whether a run had more ranks and threads than cores."""
    cores = len((record.before or {}).get("cpu_mask") or ())
    nodes = int((record.configuration or {}).get("nodes") or 1)
    return 0 < cores * nodes < record.cores


def _share(record: RunRecord) -> float:
    """Return how much of the wall-clock time of computation was CPU time."""
    seconds = record.computation or {}
    return seconds["cpu_s"] / seconds["wall_s"] if seconds.get("wall_s") else 1.0


def _stolen(record: RunRecord) -> float:
    """Return the share of the machine's cores that its host gave to others while a run went on."""
    before, after = record.before or {}, record.after or {}
    if before.get("steal_s") is None or after.get("steal_s") is None or not record.wall_s:
        return 0.0
    return float(after["steal_s"] - before["steal_s"]) / (record.wall_s * len(before.get("cpu_mask") or (0,)))
