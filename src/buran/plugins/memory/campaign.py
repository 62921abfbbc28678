"""Predictions of a measured campaign's times on another machine, from the file of its calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from buran.campaign.point import Point
from buran.errors import UsageError
from buran.modeling.functions.terms import Array
from buran.modeling.numerics.tuning import FEW
from buran.modeling.pmnf.model_set import ModelSet
from buran.modeling.priors.paths import PathModel, Source
from buran.modeling.priors.prior import Prior
from buran.plugins.memory.account import MemoryAccount
from buran.plugins.memory.costs import cache_cost, ranks_of_a_node
from buran.plugins.memory.elsewhere import ONE_DEVIATION, Drawing, Speed
from buran.plugins.memory.keys import machine_of
from buran.plugins.memory.machine_file import MachineFile
from buran.plugins.memory.tuning import SPEED_NOISE
from buran.profiles.startup import is_startup_or_shutdown
from buran.workflow.collect import gather
from buran.workflow.history import History
from buran.workflow.model import accounts_of, path_models
from buran.workflow.program import with_parts
from buran.workflow.session import Session

_WHAT = "times on another machine cannot be predicted"
KEPT, SCALED, COMPUTED = "kept", "speed alone", "blocks and misses"
"""What becomes of a call path's time: as it is here, as cores or memory are faster, and by its blocks and misses."""


@dataclass(frozen=True, eq=False)
class OtherMachine:
    """What a campaign's program takes on another machine.

    Attributes
    ----------
    home, there
        The machines.
    same
        Whether both files say the same: then times and intervals are those of the models here.
    speed
        How long the same code takes there, over what it takes here.
    parameters, points
        Shape of the points is (point, parameter).
    call_paths, kinds
        Names, and for each what becomes of its time. Starting and ending has the last row of all arrays.
    predicted, lower, upper, measured_at_home
        Seconds, shape (call path and starting, point): there, its interval, and by the models here.
    misses
        Seconds of misses there, shape (level, call path and starting, point).
    program
        Seconds there, the bounds of their interval, and seconds here, shape (4, point).
    reach
        What makes the program's interval wide, and half of its width by that alone, (point,).
    notes
        What a user should know, in sentences.
    """

    home: MachineFile
    there: MachineFile
    same: bool
    speed: Speed
    parameters: tuple[str, ...]
    points: Array
    call_paths: tuple[str, ...]
    kinds: tuple[str, ...]
    predicted: Array
    lower: Array
    upper: Array
    measured_at_home: Array
    misses: Array
    program: Array
    reach: Mapping[str, Array]
    notes: tuple[str, ...]


def predict_elsewhere(
    session: Session, there: MachineFile, points: Sequence[Mapping[str, float]], level: float = 0.9
) -> OtherMachine:
    """Predict what the program of a finished campaign takes on another machine.

    Parameters
    ----------
    session
        The campaign, with `memory.machine` and sampled accesses.
    there
        The other machine.
    points
        Values by the parameters' names.
    level
        Of intervals.

    Raises
    ------
    UsageError
        The campaign does not tell enough of the program, or of the machine it was measured on.
    """
    campaign = session.campaign
    history = _with_models(session)
    home = machine_of(campaign)
    if home is None:
        raise UsageError(
            _WHAT,
            where=campaign.path,
            why="the campaign names no file on the machine that it was measured on",
            hint="write it there with `buran doctor --calibrate machine.json`, and add memory: {machine: machine.json}",
        )
    speed = speed_of(home, there)
    material = gather(history)
    timed = material.timed
    times = history.models(history.iteration - 1).get("time")
    ranks = ranks_of_a_node(campaign)
    known = [] if timed is None else accounts_of(campaign, material, timed)
    account = next((each for each in known if isinstance(each, MemoryAccount)), None)
    models = () if timed is None else path_models(campaign, material, timed, known)
    counted = campaign.counts_tell_growth and any(model.source is Source.COMPUTATION for model in models)
    if timed is None or times is None or account is None or ranks is None or not counted:
        raise UsageError(_WHAT, where=campaign.path, why=_why_unknown(speed, counted, ranks), hint=_HINT)
    at = np.array([[float(point[name]) for name in times.parameters] for point in points])
    target = campaign.target
    on_node = campaign.placement(target).ranks_per_node
    caches = [cache_cost(there, cache, ranks, on_node) for cache in range(len(there.caches))]
    other = MemoryAccount(account.distances, caches, np.concatenate([account.at, at]))
    drawing = Drawing(speed, other, at, len(models) + 1)
    regions = [timed.tree.regions[number] for number in timed.tree.region.tolist()]
    mpi = [region.paradigm == "mpi" for region in regions]
    kinds = enter(drawing, models, times, account, other, timed.points, at, mpi)
    found = history.findings(history.iteration - 1)
    startup = np.zeros(len(at)) if found.startup is None else found.startup.predict(at)[0]
    if found.startup is not None:
        drawing.keep(len(models), startup, _deviation(found.startup, at)[0])
    done = drawing.done
    at_home = np.vstack([np.nan_to_num(times.predict(at)), startup])
    at_home[:-1][is_startup_or_shutdown(times.call_paths)] = 0.0
    lower, upper = done.interval(level)
    program = np.array([*done.program(level), at_home.sum(axis=0)])
    same = _alike(home, there)
    if same and found.runtime is not None and found.startup is not None:
        whole = with_parts(found.runtime, found.startup, times)
        program[1:3] = [np.maximum(bounds[0], 0.0) for bounds in whole.predict_interval(at, level)]
        low, high = (np.nan_to_num(end, posinf=np.inf) for end in times.predict_interval(at, level))
        lower[:-1], upper[:-1] = np.maximum(low, 0.0), high
    without_startup = found.startup is None
    crowded = any(campaign.placement(Point.of(point)).ranks_per_node > there.cores for point in points)
    notes = tuple(_notes(home, there, speed, same, without_startup, crowded))
    return OtherMachine(
        home, there, same, speed, times.parameters, at, times.call_paths, kinds, done.predicted, lower, upper,
        at_home, done.misses, program, done.reach(level), notes,
    )  # fmt: skip


_HINT = (
    "three points or more in memory.points, and metrics: [time, visits, basic_blocks, misses_level_1]; see how-to "
    "'Predict for another machine'"
)


def _with_models(session: Session) -> History:
    """Return the campaign's history up to its newest models."""
    history = History.open(session)
    newest = next(history.newest_findings, None)
    if newest is None:
        raise UsageError(
            "this campaign has no models yet",
            where=session.campaign.path,
            why="it was not run, or its file, sources or compiler changed since",
            hint=f"buran run {session.campaign.path}",
        )
    return History.open(session, newest.iteration + 1)


def _why_unknown(speed: Speed, counted: bool, ranks: str | None) -> str:
    """Say why there are no times of blocks and misses, and what is known nevertheless."""
    if not counted:
        why = "no basic blocks were counted whose cost could change"
    elif ranks is None:
        why = "no expression says how many ranks share a node at each point"
    else:
        why = "accesses to memory were not sampled at three points: nobody knows which misses the caches there have"
    return f"{why}; all that is known: the same code takes {speed.middle:.2g} times as long there, without misses"


def speed_of(home: MachineFile, there: MachineFile) -> Speed:
    """Return how long the same code takes there, by the kinds of code that both files have.

    Raises
    ------
    UsageError
        They have too few in common.
    """
    kinds = [kind for kind in home.codes if kind in there.codes]
    if len(kinds) < FEW:
        raise UsageError(
            "two machines cannot be compared",
            why=f"their files have {len(kinds)} kinds of code in common, and {FEW} are the fewest",
            hint="write both files with the same version of `buran doctor --calibrate`",
        )
    ratios = {kind: there.codes[kind] / home.codes[kind] for kind in kinds}
    # numbers that are the same to the last digit were measured once
    noise = 0.0 if home.codes == there.codes else float(np.hypot(np.log1p(home.spread), np.log1p(there.spread))) / 2
    far, near = there.levels[-1], home.levels[-1]
    of_memory = (far.latency_s / near.latency_s, far.gather_s / near.gather_s, near.bandwidth / far.bandwidth)
    return Speed(ratios, noise, float(np.exp(np.mean(np.log(of_memory)))))


def enter(
    drawing: Drawing,
    models: Sequence[PathModel],
    times: ModelSet,
    account: MemoryAccount,
    other: MemoryAccount,
    measured: Array,
    at: Array,
    mpi: Sequence[bool],
) -> tuple[str, ...]:
    """Enter all call paths but start-up and shutdown; return what becomes of each."""
    computing = [model.source is Source.COMPUTATION and model.whole is not None for model in models]
    plain = [_without_misses(model) if computes else None for model, computes in zip(models, computing, strict=True)]
    priors = other.added_to(plain, computing, measured, np.nan_to_num(times.predict(measured)))
    predicted, deviation = np.nan_to_num(times.predict(at)), _deviation(times, at)
    apart = is_startup_or_shutdown(times.call_paths)
    kinds = []
    for row, (model, prior) in enumerate(zip(models, priors, strict=True)):
        kept = mpi[row] or model.source is Source.COMMUNICATION
        kinds.append(COMPUTED if computing[row] else KEPT if kept else SCALED)
        if prior is not None and model.whole is not None:
            streams = float(account.distances.streams[row])
            seconds = {cache.level: cache.of(streams).seconds for cache in account.caches}
            drawing.compute(row, model.whole, [column for column in prior.columns if column.level], seconds)
        elif not apart[row]:
            (drawing.keep if kept else drawing.scale)(row, predicted[row], deviation[row])
    return tuple(kinds)


def _without_misses(model: PathModel) -> Prior:
    assert model.whole is not None
    prior = model.whole.prior
    return replace(prior, columns=tuple(column for column in prior.columns if not column.level))


def _deviation(models: ModelSet, at: Array) -> Array:
    """Return standard deviations by the models' intervals, shape (call path, point); 0 without a model."""
    low, high = models.predict_interval(at, ONE_DEVIATION)
    return np.nan_to_num((high - low) / 2, posinf=np.inf)


def _alike(home: MachineFile, there: MachineFile) -> bool:
    return replace(there, date=home.date, notes=home.notes, host=home.host) == home


def _notes(
    home: MachineFile, there: MachineFile, speed: Speed, same: bool, without_startup: bool, crowded: bool
) -> list[str]:
    out = []
    if same:
        out.append("this is the machine of the campaign: times and intervals are those of its own models")
    elif (home.host, home.cpu) == (there.host, there.cpu):
        out.append(
            "host and processor are those of the campaign's machine: what differs was set by hand, or is how both "
            "calibrations went"
        )
    if home.page_bytes != there.page_bytes:
        sizes = (home.page_bytes, there.page_bytes)
        first, second = (f"{size / 1024:.0f} KiB" if size else "a size that is not known" for size in sizes)
        out.append(f"memory has pages of {first} here and {second} there: misses cost more with small ones")
    if without_startup:
        out.append("start-up and shutdown is in no prediction: nothing distinguishes it from the call paths")
    if crowded:
        out.append(f"ranks are taken to fill more nodes, of {there.cores} cores each")
    busiest = max((home, there), key=lambda machine: machine.spread)
    if speed.noise and busiest.spread > SPEED_NOISE:
        out.append(
            f"{busiest.host} was busy when it was calibrated, its rounds up to {100 * busiest.spread:.0f} % longer "
            "than the least: that is in the interval"
        )
    return out
