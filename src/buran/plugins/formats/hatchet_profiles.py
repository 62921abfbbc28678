"""Profiles of TAU and HPCToolkit, as Hatchet reads them: a run in each file or folder."""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from buran.errors import BuranError, FormatError
from buran.extensions import from_extra
from buran.plugins.formats.graph_frames import EXTRA, from_graphframes
from buran.plugins.formats.run_metadata import parameters_of, point_of_name
from buran.profiles.experiment.formats import Reader, Sample
from buran.profiles.experiment.table import Experiment

_NO_NUMBER = re.compile(r'^".*" [^"\n]*\b(?:nan|inf)\b', re.MULTILINE | re.IGNORECASE)
_ADDRESS = re.compile(r"addr=<(0x)?[0-9a-f]+>")
_CPU_TIME = "cpu_time"


@dataclass(frozen=True)
class _Tool:
    """How the runs of a tool are found and read.

    Attributes
    ----------
    is_run
        Whether a file or folder is a run.
    open
        Gives the graph frame of a run; its metrics are Buran's, in Buran's units.
    metadata
        What a run says of itself, as text.
    """

    name: str
    is_run: Callable[[Path], bool]
    open: Callable[[Any, Path], Any]
    metadata: Callable[[Path], Mapping[str, str]] = lambda path: {}

    def recognises(self, sample: Sample) -> bool:
        """Tell whether this is a run, or a folder with a run."""
        return self.is_run(sample.path) or any(True for _ in self.runs(sample.path))

    def runs(self, path: Path) -> Iterator[Path]:
        """Yield the runs: the path itself, or what is in it."""
        if self.is_run(path):
            yield path
        elif path.is_dir():
            yield from (below for below in sorted(path.iterdir()) if self.is_run(below))

    def read(self, path: Path, problems: list[BuranError] | None = None) -> Experiment:
        """Read a run, or the runs in a folder, into one table; runs with the same parameters are repetitions.

        Parameters are the numbers in names such as ``tau.p4n100.r1``, then whole numbers in the metadata, then the
        number of ranks: those that differ between runs.

        Raises
        ------
        ToolError
            Hatchet is not installed.
        FormatError
            A run cannot be read, or the runs do not say what was varied.
        """
        frames: dict[Path, Any] = {}
        for run in self.runs(path):
            try:
                frames[run] = self._frame(run)
            except FormatError as error:
                if problems is None:
                    raise
                problems.append(error)
        if not frames:
            raise FormatError("no profile can be read", where=path, why=str(problems[0]) if problems else None)
        described = [{**point_of_name(run), **self.metadata(run), **_ranks(frame)} for run, frame in frames.items()]
        names = parameters_of(described, list(frames))
        points = [{name: float(run[name]) for name in names} for run in described]
        return from_graphframes(zip(points, frames.values(), strict=True))

    def _frame(self, path: Path) -> Any:
        hatchet = from_extra("hatchet", EXTRA, f"profiles of {self.name}")
        try:
            with _quiet():
                frame = self.open(hatchet.GraphFrame, path)
        except BuranError:
            raise
        except Exception as error:  # Hatchet checks nothing
            why = f"Hatchet ends with {type(error).__name__}: {error}"
            raise FormatError(f"the profile of {self.name} cannot be read", where=path, why=why) from error
        if not np.isfinite(frame.dataframe[[*frame.exc_metrics, *frame.inc_metrics]].to_numpy(dtype=float)).all():
            raise _no_number(path)
        return frame


def _no_number(path: Path) -> FormatError:
    return FormatError("a value is no number", where=path, why="it is NaN or infinite")


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep back what Hatchet prints, and warnings about its own code."""
    with warnings.catch_warnings(), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore")
        yield


def _ranks(frame: Any) -> dict[str, str]:
    levels = frame.dataframe.index
    ranks = levels.get_level_values("rank").nunique() if "rank" in levels.names else frame.metadata.get("ranks", 1)
    return {"ranks": str(ranks)}


def _with_metrics(
    frame: Any, exclusive: Mapping[str, tuple[str, float]], inclusive: Mapping[str, tuple[str, float]]
) -> Any:
    """Rename and scale columns: for each of Buran's metrics the tool's column, and what one of it is."""
    rows = frame.dataframe
    taken = {name: rows[column] * scale for name, (column, scale) in {**exclusive, **inclusive}.items()}
    frame.dataframe = rows[["name"]].assign(**taken)
    frame.exc_metrics, frame.inc_metrics, frame.metadata = list(exclusive), list(inclusive), {}
    return frame


def _tau(hatchet: Any, path: Path) -> Any:
    """Read a folder with a file for each thread, ``profile.0.0.0``; TAU counts microseconds."""
    for file in path.rglob("profile.*"):
        if _NO_NUMBER.search(file.read_text(errors="replace", encoding="utf-8")):
            raise _no_number(file)  # Hatchet takes NaN for 0
    with _clocks_apart(path) as folder:
        frame = hatchet.from_tau(str(folder))
    for node in frame.graph.traverse():
        # Another address in each process: call paths of the same functions would never meet.
        node.frame.attrs["name"] = _ADDRESS.sub("unresolved address", node.frame.attrs["name"])
    if len(frame.graph) == 1:
        raise FormatError(
            "the profile of TAU has no call paths",
            where=path,
            why="it has one function, or is flat",
            hint="measure with TAU_CALLPATH=1 and TAU_CALLPATH_DEPTH=100",
        )
    scales = {name: 1e-6 if name in ("time", _CPU_TIME) else 1.0 for name in frame.exc_metrics}
    others = {name: (name, scale) for name, scale in scales.items()}
    return _with_metrics(frame, {**others, "visits": ("Calls", 1.0)}, {})


@contextmanager
def _clocks_apart(path: Path) -> Iterator[Path]:
    """Yield a folder in which CPU times have a name of their own: Hatchet calls both clocks time, and keeps one."""
    if not all((path / f"MULTI__{clock}").is_dir() for clock in ("TIME", "CPU_TIME")):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="buran-tau-") as name:
        for file in sorted(path.glob("MULTI__*/profile.*.*.*")):
            copy = Path(name, file.parent.name, file.name)
            copy.parent.mkdir(exist_ok=True)
            copy.write_text(
                file.read_text(errors="replace", encoding="utf-8").replace(">CPU_TIME<", f">{_CPU_TIME}<", 1),
                encoding="utf-8",
            )
        yield Path(name)


def _tau_metadata(path: Path) -> dict[str, str]:
    first = next(iter(sorted(path.rglob("profile.0.0.0"))), None)
    text = re.search(r"<metadata>.*</metadata>", first.read_text(errors="replace", encoding="utf-8")) if first else None
    try:
        attributes = ElementTree.fromstring(text[0] if text else "<metadata/>")
    except ElementTree.ParseError:
        return {}
    return {attribute.findtext("name", ""): attribute.findtext("value", "") for attribute in attributes}


def _hpctoolkit(hatchet: Any, path: Path) -> Any:
    """Read a database; what lines and loops take, in seconds, belongs to the function they are in."""
    frame = hatchet.from_hpctoolkit_latest(str(path), parallel_profiles_mode=True, label_function_nodes=False)
    ranks = frame.metadata["rank"].nunique()  # a table with a row for each profile
    frame = _with_metrics(frame, {}, {"time (inc)": ("time (inc)", 1.0)})
    frame.metadata["ranks"] = ranks
    return frame


def _is_tau(path: Path) -> bool:
    return any(path.glob("profile.*.*.*")) or any(path.glob("MULTI__*/profile.*.*.*"))


def _is_database(path: Path) -> bool:
    return (path / "meta.db").is_file()


def _reader(what: str, tool: _Tool) -> Reader:
    return Reader(f"{what}, or a folder of them", tool.recognises, tool.read)


TAU = _reader("a folder of TAU's profiles", _Tool("TAU", _is_tau, _tau, _tau_metadata))
HPCTOOLKIT = _reader("a database of HPCToolkit", _Tool("HPCToolkit", _is_database, _hpctoolkit))
