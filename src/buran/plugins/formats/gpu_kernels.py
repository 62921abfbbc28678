"""Kernels of GPUs, as Nsight Systems and rocprof export them: their times and launches, below ``KERNELS``."""

from __future__ import annotations

import csv
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from buran.errors import FormatError
from buran.plugins.formats.rank_files import CallPath, Kind, RankFiles, RankValues, reader_of
from buran.profiles.experiment.formats import Sample, read_text, wrong
from buran.profiles.names import shown_name
from buran.profiles.profile import Region

_ROOT = Region("KERNELS", paradigm="measurement", role="artificial")
_SECONDS = {
    **dict.fromkeys(("", "ns", "nsec"), 1e-9),
    **dict.fromkeys(("us", "usec", "\N{MICRO SIGN}s", "\N{GREEK SMALL LETTER MU}s"), 1e-6),
    **dict.fromkeys(("ms", "msec"), 1e-3),
    **dict.fromkeys(("s", "sec"), 1.0),
}
_COLUMN = re.compile(r"(?P<name>.*?)\s*(?:\((?P<unit>[^()]*)\))?")
_NUMBER = re.compile(r"\d{1,30}(\.\d{1,30})?(e[+-]?\d{1,3})?", re.IGNORECASE)
_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?")
_CLONE = re.compile(r"\s*(\[clone \.kd\]|\(\.kd\)|\.kd)$")  # what versions of rocprof add to names

_Found = dict[str, list[float]]
"""Seconds and launches of a kernel."""


@dataclass(frozen=True)
class _Table:
    """Columns that a table of kernels has, by their names in lower case without blanks, ``_`` and units.

    Attributes
    ----------
    times
        The time of a row, or its begin and its end.
    launches
        None where each row is one.
    """

    name: str
    times: tuple[str, ...]
    launches: str | None = None

    def fits(self, columns: Sequence[str]) -> bool:
        """Tell whether a header has the columns."""
        return {self.name, *self.times, *filter(None, [self.launches])} <= set(columns)


_NSIGHT = (_Table("name", ("totaltime",), "instances"),)
_ROCPROF = (_Table("name", ("totaldurationns",), "calls"),)
_ROCPROF_TRACE = (
    _Table("kernelname", ("durationns",)),
    _Table("kernelname", ("beginns", "endns")),
    _Table("kernelname", ("starttimestamp", "endtimestamp")),
)
_OTHER_STATISTICS = re.compile(
    r"(?:^|[._-])(?:(?:hip|hsa|marker|rccl|rocdecode|rocjpeg|ompt)(?:_api)?|(?:memory_)?copy|\w+_memory|memory_\w+|domain)"
    r"_stats\.csv$"
)
"""Files of rocprof with the columns of its kernels, but of other things."""


def _columns(line: str) -> tuple[list[str], list[str]]:
    """Return the plain names of a header's columns, and their units."""
    try:
        parts = [_COLUMN.fullmatch(cell.strip()) for cell in next(csv.reader([line], strict=True), [])]
    except csv.Error:
        return [], []
    found = [part for part in parts if part is not None]
    return (
        [re.sub(r"[\s_]", "", part["name"]).lower() for part in found],
        [(part["unit"] or "").lower() for part in found],
    )


def _header(lines: Sequence[str], tables: Sequence[_Table]) -> tuple[int, _Table] | None:
    """Return the number of the line, from 0, that is the header of one of some tables."""
    for number, line in enumerate(lines):
        if "," in line and (names := _columns(line)[0]):
            table = next((table for table in tables if table.fits(names)), None)
            if table is not None:
                return number, table
    return None


def _rows(path: Path, tables: Sequence[_Table], what: str) -> Iterator[tuple[str, float, float]]:
    """Yield name, seconds and launches of each row behind the header, to the next blank line."""
    lines = read_text(path).splitlines()
    header = _header(lines, tables)
    if header is None:
        hint = f"expected: {what}"
        raise FormatError("no kernels are in the file", where=path, why="it has no header of such a table", hint=hint)
    first, table = header
    names, units = _columns(lines[first])
    name_at, times_at = names.index(table.name), [names.index(name) for name in table.times]
    scale = _SECONDS.get(units[times_at[0]])
    if scale is None:
        raise wrong(path, f"times are in {units[times_at[0]]!r}", line=first + 1, expected="ns, us, ms or s")

    def number(cells: Sequence[str], column: int, line: int) -> float:
        text = cells[column].strip()
        plain = text.replace(",", "") if _THOUSANDS.fullmatch(text) else text
        if not _NUMBER.fullmatch(plain):
            why = f"{names[column]} is {text!r}"
            raise wrong(path, why, line=line, expected="a number that is not below 0")
        return float(plain)

    end = next((at for at in range(first, len(lines)) if not lines[at].strip()), len(lines))
    rows = csv.reader(lines[first + 1 : end], strict=True)
    while True:
        line = first + 2 + rows.line_num
        try:
            cells = next(rows, None)
        except csv.Error as error:
            raise wrong(path, str(error), line=first + 1 + rows.line_num, expected=what) from error
        if cells is None:
            return
        if len(cells) != len(names):
            why = f"it has {len(cells)} cells, the header {len(names)}"
            raise wrong(path, why, line=line, expected="a row for each kernel: is the file whole?")
        if not (name := _kernel(cells[name_at])):
            raise wrong(path, "the kernel has no name", line=line, expected=what)
        times = [number(cells, column, line) for column in times_at]
        if len(times) == 2 and not 0 < times[0] <= times[1]:
            why = f"it begins at {times[0]:.0f} and ends at {times[1]:.0f}"
            raise wrong(path, why, line=line, expected="a kernel that begins before it ends")
        launches = number(cells, names.index(table.launches), line) if table.launches else 1.0
        yield name, scale * (times[-1] - (times[0] if len(times) == 2 else 0.0)), launches


def _kernel(name: str) -> str:
    """Return a kernel's name as all tools and versions have it."""
    return shown_name(" ".join(_CLONE.sub("", name.strip()).split()), "")


def _of_table(path: Path, tables: Sequence[_Table], what: str) -> list[RankValues]:
    found: _Found = defaultdict(lambda: [0.0, 0.0])
    for name, seconds, launches in _rows(path, tables, what):
        found[name][0] += seconds
        found[name][1] += launches
    return [_rank(found, path)]


def _rank(found: Mapping[str, Sequence[float]], path: Path) -> RankValues:
    if not found:
        hint = "did the program start one, and was it traced?"
        raise FormatError("no kernels are in the file", where=path, why="its table has no rows", hint=hint)
    values: dict[str, dict[CallPath, float]] = {"time": {(_ROOT,): 0.0}, "visits": {(_ROOT,): 1.0}}
    for name, (seconds, launches) in found.items():
        call_path = (_ROOT, Region(name, paradigm="gpu"))
        values["time"][call_path], values["visits"][call_path] = seconds, launches
    return RankValues(values, {})


_DATABASE = b"SQLite format 3\0"
_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)


def _tables(path: Path) -> set[str]:
    with closing(_opened(path)) as database:
        return {name for (name,) in database.execute("SELECT name FROM sqlite_master")}


def _is_nsight_database(sample: Sample) -> bool:
    try:
        tables = _tables(sample.path) if sample.head.startswith(_DATABASE) else set()
    except sqlite3.Error:
        return sample.path.suffix == ".sqlite"  # damaged; reading says how
    return "StringIds" in tables or _KERNELS in tables


def _of_database(path: Path) -> list[RankValues]:
    """Read the launches of an export; its processes are ranks."""
    try:
        return _processes(path)
    except sqlite3.Error as error:
        what, hint = "the database cannot be read", "is it whole? `nsys export --type sqlite` writes it"
        raise FormatError(what, where=path, why=str(error), hint=hint) from error


def _processes(path: Path) -> list[RankValues]:
    if _KERNELS not in _tables(path):
        hint = "did the program start one? `nsys profile --trace=cuda` traces them"
        raise FormatError("no kernels are in the file", where=path, why=f"it has no table {_KERNELS}", hint=hint)
    with closing(_opened(path)) as database:
        columns = {row[1] for row in database.execute(f"PRAGMA table_info({_KERNELS})")}
        name = next((name for name in ("demangledName", "shortName") if name in columns), None)
        if name is None or not {"start", "end"} <= columns:
            why = f"{_KERNELS} has {', '.join(sorted(columns))}"
            raise FormatError("the kernels have no times or names", where=path, why=why)
        process = "globalPid" if "globalPid" in columns else "0"
        rows = database.execute(
            f"SELECT {process}, StringIds.value, SUM([end] - start), COUNT(*), MIN([end] - start) FROM {_KERNELS} "
            f"LEFT JOIN StringIds ON StringIds.id = {name} GROUP BY {process}, {name} ORDER BY {process}"
        ).fetchall()
    processes: dict[object, _Found] = defaultdict(dict)
    for process, kernel, nanoseconds, launches, least in rows:
        if not isinstance(kernel, str) or not isinstance(nanoseconds, int) or not isinstance(least, int) or least < 0:
            why = f"{kernel!r} takes {nanoseconds} ns in {launches} launches, at least {least}"
            raise FormatError("a kernel has no name, or ends before it begins", where=path, why=why)
        found = processes[process].setdefault(_kernel(kernel), [0.0, 0.0])
        found[0] += 1e-9 * nanoseconds
        found[1] += launches
    return [_rank(found, path) for found in processes.values()] or [_rank({}, path)]


def _kind(tables: tuple[_Table, ...], what: str, without: bytes | None = None) -> Kind:
    def recognises(sample: Sample) -> bool:
        if sample.path.suffix == ".cubex" or b"\0" in sample.head or _OTHER_STATISTICS.search(sample.path.name):
            return False
        text = sample.head.decode(errors="replace").lstrip("\ufeff").splitlines()
        return _header(text, tables) is not None or (without is not None and without in sample.head)

    return Kind((".csv", ".txt"), recognises, lambda path: _of_table(path, tables, what))


def _is_rocprof_database(sample: Sample) -> bool:
    try:
        return sample.head.startswith(_DATABASE) and any(name.startswith("rocpd_") for name in _tables(sample.path))
    except sqlite3.Error:
        return False


def _unexported(suffixes: tuple[str, ...], recognises: Callable[[Sample], bool], how: str) -> Kind:
    """Return files of a tool that must be exported first."""

    def refuse(path: Path) -> list[RankValues]:
        raise FormatError("such files are not read as they are", where=path, hint=f"export it: {how}")

    return Kind(suffixes, recognises, refuse)


_REPORTS = (".nsys-rep", ".qdrep")
_SUMMARY = "the table of `nsys stats --report cuda_gpu_kern_sum --format csv`"
NSIGHT = reader_of(
    "GPU kernels of Nsight Systems, CSV or SQLite",
    RankFiles(
        (
            _kind(_NSIGHT, _SUMMARY, b"does not contain CUDA kernel data"),
            Kind((".sqlite",), _is_nsight_database, _of_database),
            _unexported(_REPORTS, lambda sample: sample.path.suffix in _REPORTS, "nsys export --type sqlite FILE"),
        )
    ),
)
_STATISTICS = "results.stats.csv of rocprof, or kernel_stats.csv or kernel_trace.csv of rocprofv3"
ROCPROF = reader_of(
    "kernel statistics or a kernel trace of rocprof",
    RankFiles(
        (
            _kind(_ROCPROF, _STATISTICS),
            _kind(_ROCPROF_TRACE, _STATISTICS),
            _unexported((".db",), _is_rocprof_database, "rocprofv3 --output-format csv"),
        )
    ),
)
