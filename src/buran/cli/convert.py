"""``buran convert``: measurements from one format to another."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from buran.cli.arguments import add_aggregate, add_loudness
from buran.cli.terminal import note
from buran.errors import BuranError, Exit, UsageError
from buran.profiles.experiment.formats import READERS, Writer, writer_for
from buran.wording import counted

if TYPE_CHECKING:
    from buran.profiles.experiment.build import Run
    from buran.profiles.experiment.table import Aggregate, Experiment

HELP = "convert measurements between formats, such as Score-P's and Extra-P's"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "input",
        metavar="IN",
        type=Path,
        help="measurements in any format below, or a campaign's folder results/NAME",
    )
    parser.add_argument(
        "output",
        metavar="OUT",
        type=Path,
        help="FILE.jsonl or FILE.parquet (complete), FILE.json, FILE.txt; a folder for Extra-P (from cubex files), or "
        "an RO-Crate (from results/NAME)",
    )
    parser.add_argument(
        "--from",
        dest="format",
        metavar="FORMAT",
        help=f"format of IN: {', '.join(READERS.names)} (default: detected)",
    )
    add_aggregate(parser, ", for .txt and .json")
    parser.add_argument("--force", action="store_true", help="replace OUT if it is a file")
    add_loudness(parser)


def run(arguments: argparse.Namespace) -> int:
    """Convert; runs that cannot be read are named and left out."""
    source: Path = arguments.input
    target: Path = arguments.output
    if not source.exists():
        hint = "name a file or a folder with measurements"
        raise UsageError("there is no such file or folder", where=source, hint=hint)
    writer = writer_for(target)
    if writer.suffix and target.is_dir():
        raise UsageError("there is a folder of this name", where=target, hint="name another file")
    if target.is_file() and target.samefile(source):
        raise UsageError("measurements are not replaced by what is made of them", where=target, hint="name another OUT")
    if target.is_file() and not arguments.force:
        raise UsageError("the file is there already", where=target, hint="add --force to replace it")
    problems: list[BuranError] = []
    try:
        if writer.write_runs is not None:
            summary = _write_runs(writer.write_runs, source, target, arguments.format, problems)
        else:
            summary = _write_table(writer, source, target, arguments.format, arguments.aggregate, problems)
    except OSError as error:
        raise UsageError("cannot write there", where=target, why=error.strerror) from error
    for problem in problems:
        print(f"left out: {problem}", file=sys.stderr)
    print(f"{summary} -> {target}")
    return int(Exit.SOME_RUNS_FAILED if problems else Exit.DONE)


def _write_table(
    writer: Writer, source: Path, target: Path, format: str | None, aggregate: Aggregate, problems: list[BuranError]
) -> str:
    from buran.profiles.experiment.read import read_experiment

    assert writer.write is not None
    experiment = read_experiment(source, format, problems)
    if writer.all_locations and aggregate != "mean":
        raise UsageError("the format keeps all values over locations", where="--aggregate", hint="leave it out")
    if not writer.all_locations and not _has_values(experiment, aggregate):
        raise UsageError(
            f"there is no {aggregate} over locations",
            where=source,
            why="the format has one value that stands for all locations",
            hint="leave --aggregate out",
        )
    writer.write(experiment, target, aggregate)
    return _summary(experiment)


def _has_values(experiment: Experiment, aggregate: Aggregate) -> bool:
    import numpy as np

    return any(not np.isnan(experiment.over_locations(metric, aggregate)).all() for metric in experiment.metrics)


def _summary(experiment: Experiment) -> str:
    """Return the extent of a table; warn, for Extra-P's sake, where it has gaps."""
    import numpy as np

    for text in experiment.notes:
        note(text)
    repetitions = max(values.shape[2] for values in experiment.values.values())
    gaps = 0
    for metric in experiment.metrics:
        measured = ~np.isnan(experiment.over_locations(metric)).all(axis=2)
        points = measured.sum(axis=1)
        gaps += int(((points > 0) & (points < measured.shape[1])).sum())
    if gaps:
        note(f"{gaps} pairs of call path and metric have no value at a point; Extra-P takes only complete files")
    return (
        f"{counted(len(experiment.points), 'point')}, {counted(len(experiment.tree), 'call path')}, "
        f"{counted(len(experiment.values), 'metric')}, up to {counted(repetitions, 'repetition')}"
    )


def _write_runs(
    write: Callable[[Path, Iterable[Run]], int],
    source: Path,
    target: Path,
    format: str | None,
    problems: list[BuranError],
) -> str:
    from buran.profiles.experiment.extrap_tree import read_runs
    from buran.profiles.experiment.read import detect_format

    if READERS.load(format or detect_format(source)).list_runs is None:
        raise UsageError(
            "a folder of profiles can only be made from cubex files",
            where=source,
            why="it is a table of measurements, which has no values of single ranks",
            hint="end OUT with the suffix of a file",
        )
    return counted(write(target, read_runs(source, problems)), "run")
