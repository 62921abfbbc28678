"""What ``perf stat -x,`` of Linux writes: counts of a whole program, a line for each event."""

from __future__ import annotations

import re
from pathlib import Path

from buran.errors import FormatError
from buran.experiment.collect import Collector
from buran.experiment.formats import Reader, Sample
from buran.experiment.source import read_text, wrong
from buran.experiment.table import Experiment
from buran.profile.metrics import table

_EXPECTED = "lines of `perf stat -x,`, as in 62,,page-faults,5464167,100.00,,"
_LINE = re.compile(r"(?P<count>\d{1,30}(?:\.\d{1,30})?|<not (?:supported|counted)>),(?P<unit>[^,]*),(?P<event>[^,]+),")
_SECONDS = {"msec": 1e-3, "ns": 1e-9, "s": 1.0}


def recognises(sample: Sample) -> bool:
    """Tell whether the first line that is no comment is that of an event."""
    lines = (line for line in sample.head.decode(errors="replace").splitlines() if line.strip() and line[0] != "#")
    return _LINE.match(next(lines, "")) is not None


def read_perf_stat(path: Path) -> Experiment:
    """Read the events that were counted, as metrics of the whole program at a point without parameters.

    Those that Buran knows have its names: ``task-clock`` is `task_clock`. Others have underscores for what no name has.

    Raises
    ------
    FormatError
        A line is no event, an event is there twice, as for each core, or none was counted.
    """
    ours = {metric.perf: metric.name for metric in table().values() if metric.perf}
    collector = Collector(())
    program, point = collector.call_path("program"), collector.point(())
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = _LINE.match(line)
        if parts is None:
            raise wrong(path, f"it is {line[:40]!r}", line=number, expected=_EXPECTED)
        if parts["count"].startswith("<"):
            continue
        event = parts["event"].partition(":")[0]
        name = ours.get(event) or re.sub(r"\W", "_", event)
        value = float(parts["count"]) * _SECONDS.get(parts["unit"], 1.0)
        if not collector.add(program, name, point, (value, value, value, value, value), 0):
            why = f"the event {parts['event']} is there twice"
            raise wrong(path, why, line=number, expected="one line for each event: leave out -A, -I and -r of perf")
        collector.set_unit(name, "sec" if parts["unit"] in _SECONDS else parts["unit"] or "occ")
    if not len(collector):
        raise FormatError(
            "perf counted nothing",
            where=path,
            why="all its events are not supported or not counted here",
            hint="ask for others, as perf stat -e task-clock,page-faults; virtual machines have no counters",
        )
    return collector.finish(path)


READER = Reader("the output of perf stat -x,", recognises, lambda path, problems: read_perf_stat(path))
