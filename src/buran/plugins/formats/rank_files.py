"""Tools that leave a file for each rank: a file is a run, a folder of files is one too, and a folder may hold runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from buran.errors import BuranError, FormatError
from buran.plugins.formats.run_metadata import parameters_of, point_of_name
from buran.profiles.experiment.build import aggregate_set
from buran.profiles.experiment.collect import Collector
from buran.profiles.experiment.formats import Reader, Sample, wrong
from buran.profiles.experiment.table import Experiment
from buran.profiles.profile import SEPARATOR, Region

CallPath = tuple[Region, ...]


@dataclass(frozen=True)
class RankValues:
    """What a file has of a rank: exclusive values by metric and call path.

    Attributes
    ----------
    units
        By metric; of metrics that Buran knows, only if they differ.
    """

    values: Mapping[str, Mapping[CallPath, float]]
    units: Mapping[str, str]


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes
    ----------
    suffixes
        What names of such files in folders end with.
    recognises
        Tells whether a file is of this kind.
    read
        Returns the ranks in it. Raises `FormatError`.
    """

    suffixes: tuple[str, ...]
    recognises: Callable[[Sample], bool]
    read: Callable[[Path], Sequence[RankValues]]


@dataclass(frozen=True)
class RankFiles:
    """How the files of a tool are found and read.

    Attributes
    ----------
    kinds
        Where a folder has files of several kinds, which say the same, those of the first count.
    """

    kinds: tuple[Kind, ...]

    def recognises(self, sample: Sample) -> bool:
        """Tell whether this is a file of the tool, or a folder with one."""
        if sample.path.is_dir():
            return bool(self._runs(sample.path))
        return any(kind.recognises(sample) for kind in self.kinds)

    def read(self, path: Path, problems: list[BuranError] | None = None) -> Experiment:
        """Read a file, a run or the runs of a folder into one table; runs with the same parameters are repetitions.

        Parameters are the numbers in names such as ``sweep.p4n100.r1``, or the number of ranks, if they differ between
        runs. A call path that a rank lacks is 0.

        Raises
        ------
        FormatError
            A file cannot be read, ranks have different metrics, or the runs do not say what was varied.
        """
        runs: dict[Path, list[RankValues]] = {}
        for run, files in (self._runs(path) if path.is_dir() else {path: [path]}).items():
            try:
                runs[run] = self._ranks(files)
            except FormatError as error:
                if problems is None:
                    raise
                problems.append(error)
        if not runs and problems:
            raise problems[0]
        described = [
            {**point_of_name(run), **({"ranks": str(len(ranks))} if len(runs) > 1 else {})}
            for run, ranks in runs.items()
        ]
        parameters = parameters_of(described, list(runs)) if len(runs) > 1 else list(described[0])
        table = Collector(tuple(parameters))
        units = {name: unit for ranks in runs.values() for rank in ranks for name, unit in rank.units.items()}
        for name, unit in units.items():
            table.set_unit(name, unit)
        everywhere: dict[str, dict[CallPath, None]] = defaultdict(dict)
        for ranks in runs.values():
            for name in ranks[0].values:
                everywhere[name] |= dict.fromkeys(call_path for rank in ranks for call_path in rank.values[name])
        for at, ranks in zip(described, runs.values(), strict=True):
            point = table.point([float(at[name]) for name in parameters])
            for name in ranks[0].values:
                cells: NDArray[np.float64] = np.array(
                    [[rank.values[name].get(call_path, 0.0) for rank in ranks] for call_path in everywhere[name]]
                )
                for call_path, statistics in zip(everywhere[name], aggregate_set(cells).tolist(), strict=True):
                    number = table.call_path(SEPARATOR.join(region.name for region in call_path), call_path)
                    table.add(number, name, point, statistics)
        return table.finish(path)

    def _kind(self, path: Path) -> Kind | None:
        sample = Sample(path)
        return next((kind for kind in self.kinds if kind.recognises(sample)), None)

    def _runs(self, folder: Path) -> dict[Path, list[Path]]:
        """Return the files of each run: folders named for a point are runs, all else is of the folder itself."""
        below = [path for path in sorted(folder.iterdir()) if path.is_dir() and point_of_name(path)]
        runs = {run: files for run in below if (files := self._files(run))}
        return runs or ({folder: files} if (files := self._files(folder)) else {})

    def _files(self, run: Path) -> list[Path]:
        """Return the files in a folder, and one level below it, as some tools have a folder for each host."""
        found: dict[int, list[Path]] = defaultdict(list)
        for path in sorted([*run.glob("*"), *run.glob("*/*")]):
            suffixes = {suffix for kind in self.kinds for suffix in kind.suffixes}
            if path.suffix in suffixes and path.is_file() and (kind := self._kind(path)):
                found[self.kinds.index(kind)].append(path)
        return found[min(found)] if found else []

    def _ranks(self, files: Sequence[Path]) -> list[RankValues]:
        ranks: list[RankValues] = []
        for file in files:
            kind = self._kind(file) or self.kinds[0]
            for rank in kind.read(file):
                ranks.append(rank)
                if missing := ranks[0].values.keys() ^ rank.values.keys():
                    raise wrong(file, f"{min(missing)} is not in all ranks", expected=f"the metrics of {files[0].name}")
        return ranks


def reader_of(what: str, files: RankFiles) -> Reader:
    """Return the reader of a tool's files.

    Parameters
    ----------
    what
        A file, as text.
    """
    return Reader(f"{what}, or a folder of them, one for each rank", files.recognises, files.read)
