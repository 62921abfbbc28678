"""Existing measurements as a table of times at a campaign's points."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

from buran.campaign.config import Campaign
from buran.campaign.document import below
from buran.campaign.mistakes import CampaignError, Mistake, listed
from buran.errors import BuranError, FormatError
from buran.plugins.imports.keys import KEY, MeasurementsKeys, measurements_of
from buran.profiles.cubex_read import read_profile
from buran.profiles.experiment.build import Run, experiment_from_profiles, unique_points
from buran.profiles.experiment.extrap_tree import profile_in
from buran.profiles.experiment.merge import add_points
from buran.profiles.experiment.read import read_experiment
from buran.profiles.experiment.table import Experiment
from buran.profiles.extrap_names import extrap_names
from buran.profiles.metrics import uncounted
from buran.wording import counted
from buran.workflow.history import History


@lru_cache(maxsize=4)
def measured_elsewhere(campaign: Campaign) -> Experiment | None:
    """Return the times of all measurements that a campaign names; None without any.

    Where several have a point, the first one counts.

    Raises
    ------
    CampaignError
        One cannot be read, has no point of the campaign, or parameters that nothing is said of.
    """
    whole: Experiment | None = None
    for number, entry in enumerate(measurements_of(campaign.config)):
        table = _at_points(campaign, number, entry, _read(campaign, number, entry))
        whole = table if whole is None else add_points(whole, table)
    return whole


def notes(history: History) -> Iterator[str]:
    """Say at how many points models take times that were measured elsewhere."""
    campaign = history.session.campaign
    table = measured_elsewhere(campaign)
    if table is not None:
        paths = listed(entry.path for entry in measurements_of(campaign.config))
        yield (
            f"Times at {counted(len(table.points), 'point')} are from {paths} (key {KEY}), as they are: that they are "
            "of the same program, machine and instrumentation is not checked. Where the campaign has timed a point "
            "itself, its own times count."
        )


def _read(campaign: Campaign, number: int, entry: MeasurementsKeys) -> Experiment:
    path = below(campaign.folder, entry.path)
    if not path.exists():
        what, hint = f"the measurements {entry.path!r} are missing", "paths are relative to the campaign file"
        raise _refused(campaign, (KEY, number, "path"), what, f"there is no {path}", hint)
    if campaign.choices or campaign.simulator is not None:
        why = "parameters have words as values" if campaign.choices else "simulated and measured times are not mixed"
        raise _refused(campaign, (KEY, number), "measurements cannot be used with this campaign", why, "leave them out")
    try:
        if entry.pattern is None:
            return read_experiment(path)
        return experiment_from_profiles(_runs_like(path, re.compile(entry.pattern)))
    except (OSError, BuranError) as error:
        what = f"the measurements {entry.path!r} cannot be read"
        if isinstance(error, BuranError):
            raise _refused(campaign, (KEY, number, "path"), what, error.why or error.what, error.hint) from error
        raise _refused(campaign, (KEY, number, "path"), what, str(error)) from error


def _runs_like(folder: Path, pattern: re.Pattern[str]) -> Iterator[Run]:
    """Read the profiles below a folder, the paths of whose folders fit a pattern with a group for each parameter.

    Without a group ``repetition`` the runs of a point are numbered in the order of their paths.
    """
    met: Counter[tuple[float, ...]] = Counter()
    for run_folder in sorted({file.parent for file in folder.rglob("*.cubex")}):
        name = run_folder.relative_to(folder).as_posix()
        match, path = pattern.search(name), profile_in(run_folder)
        if match is None:
            why = f"{name!r} does not fit the pattern {pattern.pattern!r}"
            raise FormatError("the name of a run's folder cannot be read", where=run_folder, why=why)
        try:
            point = {key: float(value) for key, value in match.groupdict().items() if value is not None}
        except ValueError as error:
            raise FormatError("the name of a run's folder cannot be read", where=run_folder, why=str(error)) from None
        number = point.pop("repetition", None)
        at = tuple(point.values())
        met[at] += 1
        if path is not None:
            yield point, met[at] if number is None else int(number), read_profile(path)


def _refused(
    campaign: Campaign, key: tuple[str | int, ...], what: str, why: str, hint: str | None = None
) -> CampaignError:
    return CampaignError([Mistake(key, what, why, hint, campaign.path)])


def _at_points(campaign: Campaign, number: int, entry: MeasurementsKeys, table: Experiment) -> Experiment:
    """Return the times of a table at the campaign's points, by its parameters."""
    columns = _columns(campaign, number, entry, table)
    names = campaign.parameters
    fixed = np.full(len(table.points), np.nan)
    points = np.stack([table.points[:, columns[name]] if name in columns else fixed + 0.0 for name in names], axis=1)
    for name, value in entry.fixed.items():
        points[:, names.index(name)] = float(value)
    wanted = {tuple(float(point[name]) for name in names) for point in campaign.points}
    inside = np.array([tuple(row) in wanted for row in points.tolist()], dtype=bool)
    if "time" not in table.values or not inside.any():
        why = "it has no metric time" if "time" not in table.values else "it has none of the campaign's points"
        hint = "give the campaign points that were measured, or take the entry out"
        raise _refused(campaign, (KEY, number, "path"), f"nothing in {entry.path!r} can be used", why, hint)
    rows, order = unique_points(points[inside])
    if len(rows) < inside.sum():
        why = "several of its points are the same in this campaign's parameters"
        raise _refused(campaign, (KEY, number), f"the measurements {entry.path!r} are ambiguous", why)
    back = np.argsort(order)
    kept = uncounted(table.values)
    values = {name: table.values[name][:, inside][:, back] for name in kept}
    return Experiment(names, rows, table.tree, values, {name: table.units[name] for name in kept})


def _columns(campaign: Campaign, number: int, entry: MeasurementsKeys, table: Experiment) -> dict[str, int]:
    """Return the table's column of each of the campaign's parameters that it has."""
    usual = {theirs: name for name, theirs in extrap_names(campaign.parameters).items()}
    usual |= {name: name for name in campaign.parameters}
    known = {**usual, **entry.names}
    names = {known[name]: i for i, name in enumerate(table.parameters) if known.get(name, "") not in ("", *entry.fixed)}
    key: tuple[str | int, ...] = (KEY, number)
    why = f"the runs have {listed(table.parameters)}; the campaign's parameters are {listed(campaign.parameters)}"
    missing = [name for name in campaign.parameters if name not in (*names, *entry.fixed)]
    if missing:
        what = f"the measurements in {entry.path!r} do not say the value of {' and '.join(missing)}"
        hint = f"write `fixed: {{{missing[0]}: VALUE}}`, or `names: {{THEIR_NAME: {missing[0]}}}` in the entry"
        raise _refused(campaign, key, what, why, hint)
    varied = [
        name for i, name in enumerate(table.parameters) if name not in known and len(np.unique(table.points[:, i])) > 1
    ]
    if varied:
        what = f"the measurements in {entry.path!r} vary {' and '.join(varied)}, which is no parameter"
        hint = f"write `names: {{{varied[0]}: PARAMETER}}` in the entry, or keep runs with one value only"
        raise _refused(campaign, key, what, why, hint)
    return names
