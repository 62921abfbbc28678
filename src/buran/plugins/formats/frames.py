"""Measurement tables as data frames, data sets and Parquet files; pandas, xarray and pyarrow come with an extra."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buran.errors import BuranError, FormatError, UsageError
from buran.extensions import from_extra
from buran.profiles.experiment.build import unique_points
from buran.profiles.experiment.collect import Collector, export_names
from buran.profiles.experiment.formats import Reader, Sample, Writer
from buran.profiles.experiment.table import AGGREGATES, Aggregate, Experiment
from buran.profiles.metrics import metric_of
from buran.profiles.profile import CallTree

EXTRA = "frames"
_TREE = "buran"
"""Key, among a frame's attributes, of what its columns cannot hold: regions, and points without values."""
_MAGIC = b"PAR1"
_KEYS = ("call_path", "metric", "unit", "repetition")


def to_dataframe(experiment: Experiment) -> Any:
    """Return a tidy frame: a row for each call path, metric, point and repetition that was measured.

    Columns are `call_path`, `metric`, `unit`, a column for each parameter, `repetition`, and the statistics over ranks,
    `mean`, `median`, `min`, `max` and `sum`, of exclusive values.

    Raises
    ------
    ToolError
        pandas is not installed.
    UsageError
        A parameter has the name of another column.
    """
    pandas = from_extra("pandas", EXTRA, "data frames")
    if taken := {*_KEYS, *AGGREGATES} & set(experiment.parameters):
        what = f"the parameter {min(taken)!r} has the name of a column of data frames"
        raise UsageError(what, hint="rename it, as in dataclasses.replace(experiment, parameters=...)")
    names, metrics = export_names(experiment.tree), list(experiment.metrics)
    positions, statistics = [], []
    for number, values in enumerate(experiment.values.values()):
        where = np.argwhere(~np.isnan(values).all(axis=3))
        positions.append(np.column_stack([np.full(len(where), number), where]))
        statistics.append(values[tuple(where.T)])
    at = np.concatenate(positions)
    metric, path, point, repetition = at.T
    found = np.concatenate(statistics)
    units = list(dict.fromkeys(experiment.units.values()))
    unit = np.array([units.index(experiment.units[name]) for name in metrics])
    columns: dict[str, Any] = {
        "call_path": pandas.Categorical.from_codes(path, names),
        "metric": pandas.Categorical.from_codes(metric, metrics),
        "unit": pandas.Categorical.from_codes(unit[metric], units),
    }
    columns |= {name: experiment.points[point, column] for column, name in enumerate(experiment.parameters)}
    columns |= {"repetition": repetition}
    columns |= {name: found[:, column] for column, name in enumerate(AGGREGATES)}
    frame = pandas.DataFrame(columns)
    frame.attrs[_TREE] = json.dumps(_attributes(experiment))
    return frame


def _attributes(experiment: Experiment) -> dict[str, Any]:
    """Return what the columns of a frame do not say."""
    return {
        "parameters": experiment.parameters,
        "points": experiment.points.tolist(),
        "repetitions": {name: values.shape[2] for name, values in experiment.values.items()},
        "units": dict(experiment.units),
        "notes": experiment.notes,
        **experiment.tree.to_json(),
    }


def from_dataframe(frame: Any, parameters: Sequence[str] | None = None) -> Experiment:
    """Return the table of a frame: one of `to_dataframe`, or any with these columns.

    Parameters
    ----------
    frame
        With the columns `call_path`, whose regions are separated by ``->``, and `mean`, or `value` for a number that
        stands for all ranks. `metric` is ``time`` by default; `repetition` counts the rows of a point by default.
    parameters
        Names of the columns that are parameters; by default all that mean nothing else.

    Raises
    ------
    FormatError
        Columns are missing, a parameter is no finite number, a row is there twice, or units of a metric differ.
    """
    known = json.loads(frame.attrs.get(_TREE, "{}"))
    names = tuple(parameters or known.get("parameters") or _others(frame))
    _check_columns(frame, names)
    path, call_paths = _codes(frame["call_path"])
    metric, metrics = _codes(frame["metric"]) if "metric" in frame else (np.zeros(len(frame), dtype=np.int64), ["time"])
    tree, position = _tree_of(call_paths, CallTree.from_json(known) if known else None)
    rows = frame[list(names)].to_numpy(dtype=np.float64)
    if not np.isfinite(rows).all():
        raise FormatError("a parameter is no finite number", where=f"row {int(np.argwhere(~np.isfinite(rows))[0, 0])}")
    points, point = unique_points(rows)
    if known:
        points, at = unique_points(np.concatenate([np.array(known["points"]).reshape(-1, len(names)), rows]))
        point = at[len(known["points"]) :]
    repetition = _repetitions(frame, path, metric, point)
    units = {**_units(frame, metric, metrics), **known.get("units", {})}
    values = {}
    for number, name in enumerate(metrics):
        chosen = np.flatnonzero(metric == number)
        most = max(int(repetition[chosen].max(initial=-1)) + 1, known.get("repetitions", {}).get(name, 0))
        if not most:
            continue
        cells = np.full((len(tree), len(points), most, len(AGGREGATES)), np.nan)
        cells[position[path[chosen]], point[chosen], repetition[chosen]] = _statistics(frame, chosen)
        values[name] = cells
    return Experiment(names, points, tree, values, units, tuple(known.get("notes", ())))


def _others(frame: Any) -> list[str]:
    named = {*_KEYS, *AGGREGATES, "value"}
    return [str(name) for name in frame.columns if name not in named and frame[name].dtype.kind in "iuf"]


def _check_columns(frame: Any, parameters: Sequence[str]) -> None:
    missing = [name for name in ("call_path", *parameters) if name not in frame]
    if "mean" not in frame and "value" not in frame:
        missing.append("mean")
    if missing or not parameters or not len(frame):
        what = f"the data frame has no column {missing[0]!r}" if missing else "the data frame has no rows"
        what = what if parameters else "the data frame has no column of a parameter"
        raise FormatError(what, why=f"it has {', '.join(map(str, frame.columns))}", hint="see Experiment.to_dataframe")


def _codes(column: Any) -> tuple[NDArray[np.int64], list[str]]:
    """Return shape (row,) of numbers, and the texts that these stand for."""
    column = column.astype("category")
    codes = column.cat.codes.to_numpy().astype(np.int64)
    if (codes < 0).any():
        raise FormatError(f"a {column.name} is missing", where=f"row {int(np.flatnonzero(codes < 0)[0])}")
    return codes, [str(name) for name in column.cat.categories]


def _tree_of(names: Sequence[str], known: CallTree | None) -> tuple[CallTree, NDArray[np.int64]]:
    """Return the call paths, and shape (name,) of where each name is among them."""
    if known is not None:
        at = {name: number for number, name in enumerate(export_names(known))}
        if at.keys() >= set(names):
            return known, np.array([at[name] for name in names], dtype=np.int64)
    collector = Collector(())
    for name in names:
        collector.call_path(name)
    return collector.tree()


def _repetitions(
    frame: Any, path: NDArray[np.int64], metric: NDArray[np.int64], point: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return shape (row,): the position among the repetitions of a point."""
    pandas = from_extra("pandas", EXTRA, "data frames")
    positions = pandas.DataFrame({"path": path, "metric": metric, "point": point})
    if "repetition" not in frame:
        counted: NDArray[np.int64] = positions.groupby(["path", "metric", "point"]).cumcount().to_numpy()
        return counted
    positions["repetition"] = frame["repetition"].to_numpy()
    twice = positions.duplicated().to_numpy()
    if twice.any():
        row = int(np.flatnonzero(twice)[0])
        why = f"call path {frame['call_path'].iloc[row]} has that metric, point and repetition already"
        raise FormatError("a row is there twice", where=f"row {row}", why=why, hint="number its repetitions")
    repetition: NDArray[np.int64] = positions["repetition"].to_numpy().astype(np.int64)
    if repetition.min() < 0:
        raise FormatError("a repetition is below 0", where=f"row {int(repetition.argmin())}")
    return repetition


def _units(frame: Any, metric: NDArray[np.int64], metrics: Sequence[str]) -> dict[str, str]:
    if "unit" not in frame:
        return {name: metric_of(name).unit for name in metrics}
    codes, texts = _codes(frame["unit"])
    units = {}
    for number, name in enumerate(metrics):
        found = np.unique(codes[metric == number])
        if len(found) > 1:
            why = f"it is in {' and in '.join(texts[code] for code in found)}"
            raise FormatError(f"the metric {name} has different units", why=why, hint="convert one of them")
        units[name] = texts[found[0]] if len(found) else metric_of(name).unit
    return units


def _statistics(frame: Any, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return shape (row, aggregate); a value stands for all but the sum, which is not known."""
    if "mean" in frame:
        there = [frame[name].to_numpy(dtype=np.float64)[rows] if name in frame else None for name in AGGREGATES]
        return np.stack([np.full(len(rows), np.nan) if column is None else column for column in there], axis=1)
    value = frame["value"].to_numpy(dtype=np.float64)[rows]
    return np.stack([value, value, value, value, np.full(len(rows), np.nan)], axis=1)


def to_dataset(experiment: Experiment) -> Any:
    """Return a data set of xarray: a variable for each metric, over call path, point, repetition and statistic.

    Parameters are coordinates of the points: ``set_index(point=[...]).unstack("point")`` makes a grid of them.

    Raises
    ------
    ToolError
        xarray is not installed.
    """
    xarray = from_extra("xarray", EXTRA, "data sets")
    most = max(values.shape[2] for values in experiment.values.values())
    dimensions = ("call_path", "point", "repetition", "statistic")
    variables = {}
    for name, values in experiment.values.items():
        cells = np.full((*values.shape[:2], most, len(AGGREGATES)), np.nan)
        cells[:, :, : values.shape[2]] = values
        variables[name] = (dimensions, cells, {"units": experiment.units[name]})
    coordinates: dict[str, Any] = {"call_path": export_names(experiment.tree), "statistic": list(AGGREGATES)}
    columns = zip(experiment.parameters, experiment.points.T, strict=True)
    return xarray.Dataset(variables, {**coordinates, **{name: ("point", column) for name, column in columns}})


def write_parquet(experiment: Experiment, path: Path, aggregate: Aggregate) -> None:
    """Write the frame of a table as Parquet; it appears whole or not at all."""
    from_extra("pyarrow", EXTRA, "Parquet files")
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        to_dataframe(experiment).to_parquet(temporary, index=False)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_parquet(path: Path, problems: list[BuranError] | None = None) -> Experiment:
    """Read a Parquet file with the columns that `from_dataframe` wants.

    Raises
    ------
    FormatError
        It is damaged, or see `from_dataframe`.
    """
    from_extra("pyarrow", EXTRA, "Parquet files")
    pandas = from_extra("pandas", EXTRA, "data frames")
    try:
        frame = pandas.read_parquet(path)
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
        raise FormatError("the Parquet file cannot be read", where=path, why=str(error).splitlines()[0]) from error
    try:
        return from_dataframe(frame)
    except FormatError as error:
        raise FormatError(error.what, where=f"{path}, {error.where or ''}".rstrip(", "), why=error.why) from error


def recognises(sample: Sample) -> bool:
    """Tell whether a file is one of Parquet."""
    return sample.head.startswith(_MAGIC)


READER = Reader("a Parquet file of a tidy table", recognises, read_parquet)
WRITER = Writer(".parquet", "a Parquet file of a tidy table", write_parquet, all_locations=True)
