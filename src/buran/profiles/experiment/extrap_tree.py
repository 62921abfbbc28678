"""Folders of cubex files, named as Extra-P reads them: ``prefix.n1000p4.r1/profile.cubex``."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from buran.errors import BuranError, FormatError, UsageError
from buran.profiles.cubex_read import read_profile
from buran.profiles.cubex_write import write_cubex
from buran.profiles.experiment.build import Run, experiment_from_profiles
from buran.profiles.experiment.formats import Reader, Sample, Writer
from buran.profiles.experiment.table import Experiment
from buran.profiles.extrap_names import extrap_names, folder_name, parse_folder_name
from buran.profiles.regroup import on_one_tree

_HINT = "name the folders of runs like prefix.n1000p4.r1, with profile.cubex in each"
_TRACE = "traces.otf2"


@dataclass(frozen=True)
class RunFile:
    """A profile in a folder of runs.

    Attributes
    ----------
    point
        Value of each parameter, in the order of the folder's name.
    repetition
        From the folder's name; 1 if it says none.
    path
        The cubex file.
    """

    point: dict[str, float]
    repetition: int
    path: Path


def profile_in(folder: Path) -> Path | None:
    """Return the profile of a run's folder; None without any. Raises `FormatError` where it has several, or a trace."""
    files = sorted(file for file in folder.glob("*.cubex") if not file.name.startswith("."))
    if not files and (folder / _TRACE).is_file():
        raise FormatError(
            "a run left a trace, and no profile",
            where=folder,
            why="traces (OTF2) are not read",
            hint="measure with SCOREP_ENABLE_PROFILING=true, or make a profile of it with Scalasca's scout",
        )
    named = [file for file in files if file.name == "profile.cubex"]
    if len(files) > 1 and not named:
        raise FormatError(
            "a folder has several profiles",
            where=folder,
            why=f"it has {', '.join(file.name for file in files)}, and none is called profile.cubex",
            hint="keep one, or give each run a folder of its own",
        )
    return next(iter(named or files), None)


def list_runs(folder: Path, problems: list[BuranError] | None = None) -> list[RunFile]:
    """Return the profiles in a folder of runs, sorted by point and repetition.

    Where a run has several cubex files, as Scalasca leaves them, ``profile.cubex`` counts.

    Parameters
    ----------
    folder
        What to look at.
    problems
        Takes the errors of single folders, and these are passed over; without it the first one is raised.

    Raises
    ------
    FormatError
        There are none, or a name does not follow Extra-P's scheme, or two have the same point and repetition.
    """
    runs: dict[tuple[tuple[float, ...], int], RunFile] = {}
    for subfolder in sorted(folder.iterdir()) if folder.is_dir() else []:
        try:
            run = _run_in(subfolder, next(iter(runs.values()), None)) if subfolder.is_dir() else None
            if run is None:
                continue
            before = runs.setdefault((tuple(run.point.values()), run.repetition), run)
            if before is not run:
                raise FormatError(
                    "two folders have the same point and repetition",
                    where=subfolder,
                    why=f"so has {before.path.parent.name}",
                    hint=_HINT,
                )
        except FormatError as error:
            if problems is None:
                raise
            problems.append(error)
    if not runs and not problems:
        raise FormatError("there are no profiles", where=folder, why="no folder in it has a cubex file", hint=_HINT)
    return sorted(runs.values(), key=lambda run: (tuple(run.point.values()), run.repetition))


def _run_in(folder: Path, first: RunFile | None) -> RunFile | None:
    """Return the run in a folder, whose parameters are those of the first one; None if it has no profile."""
    path = profile_in(folder)
    if path is None:
        return None
    try:
        point, repetition = parse_folder_name(folder.name)
    except ValueError as error:
        raise FormatError(
            "the name of a run's folder cannot be read",
            where=folder,
            why=str(error),
            hint=_HINT + "; move other folders away",
        ) from error
    if first is not None and list(first.point) != list(point):
        raise FormatError(
            "the folders of runs do not have the same parameters",
            where=folder,
            why=f"it has {', '.join(point)}, but {first.path.parent.name} {', '.join(first.point)}",
            hint=_HINT,
        )
    return RunFile(point, 1 if repetition is None else repetition, path)


def read_runs(folder: Path, problems: list[BuranError] | None = None) -> Iterator[Run]:
    """Read the profiles in a folder of runs, one at a time.

    Parameters
    ----------
    folder
        See `list_runs`.
    problems
        Takes the errors of profiles that cannot be read, and these are passed over; without it the first one
        is raised.

    Raises
    ------
    FormatError
        See above, and `list_runs`.
    """
    for run in list_runs(folder):
        try:
            profile = read_profile(run.path)
        except FormatError as error:
            if problems is None:
                raise
            problems.append(error)
            continue
        yield run.point, run.repetition, profile


def write_extrap_tree(
    folder: Path,
    runs: Iterable[Run],
    *,
    parameters: Sequence[str] | None = None,
    prefix: str = "buran",
    compress: bool = False,
) -> int:
    """Write a folder of runs that ``extrap --cube`` opens.

    All profiles get the union of their call trees, with zeros where a run did not visit a call path: Extra-P
    moves call paths that are missing at one point into their callers at all points. Regions of the same name
    become one, since Extra-P would take the second one for more locations.

    Parameters
    ----------
    folder
        Must not exist, or be empty; it appears whole or not at all.
    runs
        Point, repetition, profile.
    parameters
        Order of the parameters; that of the first run by default.
    prefix
        First part of the names.
    compress
        As in `write_cubex`.

    Returns
    -------
    int
        The number of runs.

    Raises
    ------
    UsageError
        The folder has something in it, there are no runs, or names or values do not fit into folder names.
    RunError
        A profile cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            "the folder for Extra-P is not empty",
            where=folder,
            why="Extra-P would take everything in it for runs",
            hint="name a new folder",
        )
    measured = list(runs)
    if not measured:
        raise UsageError("there are no runs to write", where=folder)
    names = extrap_names(tuple(measured[0][0]) if parameters is None else parameters)
    profiles = on_one_tree(profile for _, _, profile in measured)
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(6)}.tmp")
    temporary.mkdir(parents=True)
    try:
        for (point, repetition, _), profile in zip(measured, profiles, strict=True):
            if point.keys() != names.keys():
                raise UsageError(
                    "the runs do not have the same parameters",
                    where=", ".join(f"{name}={value}" for name, value in point.items()),
                    why=f"expected are {', '.join(names)}",
                )
            number = repetition if isinstance(repetition, int) else repetition.number
            run_folder = temporary / folder_name(prefix, point, number, names)
            if run_folder.exists():
                raise UsageError("a repetition is there twice", where=run_folder.name)
            run_folder.mkdir()
            write_cubex(profile, run_folder / "profile.cubex", compress=compress)
        temporary.replace(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return len(measured)


def recognises(sample: Sample) -> bool:
    """Tell whether a folder has folders with profiles; a single profile is refused.

    Raises
    ------
    UsageError
        It is a profile.
    """
    if sample.path.suffix == ".cubex" and not sample.path.is_dir():
        raise UsageError(
            "a single profile is no series of measurements",
            where=sample.path,
            why="it says nothing about parameters",
            hint="give the folder that holds the folders of all runs, named like prefix.n1000p4.r1",
        )
    return sample.path.is_dir() and any(sample.path.glob("*/*.cubex"))


def read_tree(folder: Path, problems: list[BuranError] | None = None) -> Experiment:
    """Read the profiles in a folder of runs into one table; see `read_runs`."""
    runs = read_runs(folder, problems)
    first = next(runs, None)
    if first is None:
        raise FormatError("no profile can be read", where=folder, why=str(problems[0]) if problems else None)
    return experiment_from_profiles(chain([first], runs))


READER = Reader("a folder of runs with cubex files", recognises, read_tree, list_runs)
WRITER = Writer("", "a folder of runs for extrap --cube, from cubex files alone", write_runs=write_extrap_tree)
