"""What bounds call paths: operations, the bandwidth or the latency of a cache or of memory, MPI, waiting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buran.modeling.numerics.tuning import FLOOR
from buran.plugins.memory.cache_table import size_text
from buran.reporting.files import environment
from buran.reporting.plain import briefs, section
from buran.wording import named

BLOCKS, MPI, WAITING = "blocks", "MPI", "waiting"


@dataclass(frozen=True)
class Work:
    """A call path at a point, mean over ranks.

    Attributes
    ----------
    seconds
        Time of the model.
    flops
        None where they were not counted.
    traffic_bytes
        By level, cache lines that come from beyond it; nearest first.
    bound
        What takes most of the time.
    share
        Share of the time, by what bounds it at the machine's full speed; None where there is no such speed.
    level
        Of which the traffic takes longest at full bandwidth, from 0; None without traffic.
    """

    seconds: float
    flops: float | None
    traffic_bytes: Sequence[float]
    bound: str
    share: float | None
    level: int | None

    @property
    def intensity(self) -> float | None:
        """Flops for each byte of the traffic that takes longest; None without either."""
        traffic = 0.0 if self.level is None else self.traffic_bytes[self.level]
        return self.flops / traffic if self.flops and traffic else None

    @property
    def speed(self) -> float | None:
        """Flops a second; None without any."""
        return self.flops / self.seconds if self.flops and self.seconds else None


@dataclass(frozen=True)
class BoundPath:
    """A call path at the largest measured point and at the target."""

    call_path: str
    now: Work
    target: Work


@dataclass(frozen=True)
class Roofline:
    """What bounds the call paths with the largest times at the target.

    Attributes
    ----------
    machine
        Whose roofs these are, and of which day.
    levels
        Names of what lies beyond each cache, nearest first.
    bandwidths, flops
        Of a rank at the target, in bytes and operations a second.
    ranks
        On a node, at the largest measured point and at the target.
    largest
        That point.
    """

    machine: str
    levels: Sequence[str]
    bandwidths: Sequence[float]
    flops: float
    ranks: tuple[int, int]
    largest: Mapping[str, float]
    rows: Sequence[BoundPath]


EXPLANATION = (
    "A call path is bound by what takes at least half of its time at the machine's full speed: floating-point "
    "operations, or cache lines from a level at the bandwidth that a rank gets of it. Else by its blocks, the "
    "instructions themselves; or by latency, if its misses would take half of the time one after the other: how many "
    "wait for each other, and which the processor predicts, is not seen."
)


def level_names(caches: Sequence[int]) -> list[str]:
    """Return what lies beyond each cache."""
    return [f"level {number} ({size_text(size)})" for number, size in enumerate(caches[1:], start=2)] + ["memory"]


_HEADER = ["call path", "seconds at target", "GFLOP/s", "flops per byte", "bound by, measured", "bound by, at target"]


def rows_of(roofline: Roofline) -> list[list[str]]:
    """Return the cells of each row, as `_HEADER` says."""
    names = briefs([row.call_path for row in roofline.rows])
    return [
        [
            name,
            f"{row.target.seconds:.3g}",
            "–" if row.target.speed is None else f"{1e-9 * row.target.speed:.3g}",
            "–" if row.target.intensity is None else f"{row.target.intensity:.2g}",
            *(_bound(work) for work in (row.now, row.target)),
        ]
        for name, row in zip(names, roofline.rows, strict=True)
    ]


def _bound(work: Work) -> str:
    return work.bound if work.share is None else f"{work.bound}, {100 * work.share:.0f} %"


def roofline_text(roofline: Roofline) -> str:
    """Return the table as plain text."""
    text = section("What bounds call paths", _HEADER, rows_of(roofline))
    return f"{text}\n\n{_words(roofline)}" if text else ""


def _words(roofline: Roofline) -> str:
    return f"{EXPLANATION} The machine: {roofline.machine}."


def roofline_page(roofline: Roofline, target: Mapping[str, float]) -> str:
    """Return the table as HTML."""
    shown = f"Shown are the call paths with the largest times at {named(target)}, and what bounds them at"
    words = f"{_words(roofline)} {shown} {named(roofline.largest)}."
    template = environment(Path(__file__).parent).get_template("roofline.html.j2")
    return template.render(words=words, header=_HEADER, rows=rows_of(roofline))


def roofline_plot(roofline: Roofline) -> dict[str, Any] | None:
    """Return what the page draws: roofs, and call paths as lines from the largest measured point to the target."""
    names = briefs([row.call_path for row in roofline.rows])
    least = FLOOR * roofline.flops
    placed = [
        [name, [_coordinates(work) for work in (row.now, row.target)]]
        for name, row in zip(names, roofline.rows, strict=True)
        if all(work.intensity and (work.speed or 0.0) >= least for work in (row.now, row.target))
    ]
    roofs = [[name, speed] for name, speed in zip(roofline.levels, roofline.bandwidths, strict=True)]
    return {"roofs": roofs, "peak": roofline.flops, "paths": placed} if placed else None


def _coordinates(work: Work) -> list[Any]:
    return [work.intensity, work.speed, work.level, _bound(work)]
