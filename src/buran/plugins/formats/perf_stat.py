"""What ``perf stat -x,`` of Linux writes: counts of a whole program, a line for each event."""

from __future__ import annotations

import re
from pathlib import Path

from buran.errors import FormatError
from buran.plugins.formats.rank_files import CallPath, Kind, RankFiles, RankValues, reader_of
from buran.profiles.experiment.formats import Sample, read_text, wrong
from buran.profiles.metrics import table
from buran.profiles.profile import Region

_EXPECTED = "lines of `perf stat -x,`, as in 62,,page-faults,5464167,100.00,,"
_LINE = re.compile(r"(?P<count>\d{1,30}(?:\.\d{1,30})?|<not (?:supported|counted)>),(?P<unit>[^,]*),(?P<event>[^,]+),")
_PROGRAM = (Region("program"),)
_SECONDS = {"msec": 1e-3, "ns": 1e-9, "s": 1.0}


def metric_of_event(event: str) -> str:
    """Return the name of the metric that an event is, as ``task_clock`` for ``task-clock:u``."""
    event = event.partition(":")[0]
    ours = {metric.perf: metric.name for metric in table().values() if metric.perf}
    return ours.get(event) or re.sub(r"\W", "_", event)


def recognises(sample: Sample) -> bool:
    """Tell whether the first line that is no comment is that of an event."""
    lines = (line for line in sample.head.decode(errors="replace").splitlines() if line.strip() and line[0] != "#")
    return _LINE.match(next(lines, "")) is not None


def read_perf_stat(path: Path) -> tuple[RankValues]:
    """Read the events that were counted, as metrics of the whole program.

    Those that Buran knows have its names: ``task-clock`` is `task_clock`. Others have underscores for what no name has.

    Raises
    ------
    FormatError
        A line is no event, an event is there twice, as for each core, or none was counted.
    """
    values, units = dict[str, dict[CallPath, float]](), dict[str, str]()
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = _LINE.match(line)
        if parts is None:
            raise wrong(path, f"it is {line[:40]!r}", line=number, expected=_EXPECTED)
        if parts["count"].startswith("<"):
            continue
        name = metric_of_event(parts["event"])
        if name in values:
            why = f"the event {parts['event']} is there twice"
            raise wrong(path, why, line=number, expected="one line for each event: leave out -A, -I and -r of perf")
        values[name] = {_PROGRAM: float(parts["count"]) * _SECONDS.get(parts["unit"], 1.0)}
        units[name] = "sec" if parts["unit"] in _SECONDS else parts["unit"] or "occ"
    if not values:
        raise FormatError(
            "perf counted nothing",
            where=path,
            why="all its events are not supported or not counted here",
            hint="ask for others, as perf stat -e task-clock,page-faults; virtual machines have no counters",
        )
    return (RankValues(values, units),)


READER = reader_of("the output of perf stat -x,", RankFiles((Kind((".csv",), recognises, read_perf_stat),)))
