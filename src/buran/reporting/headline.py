"""What a report begins with: what changed, and what stops the program from scaling, with what proves it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from buran.features import sections_of
from buran.modeling.exact.formulas import passes_through
from buran.modeling.functions.powers import NO_GROWTH, Lead, PowerLog
from buran.modeling.numerics.tuning import NEARLY, OF_MEANS, STEADY
from buran.modeling.pmnf.model import Model
from buran.modeling.pmnf.model_set import ModelSet
from buran.reporting.call_paths import Array, CallPaths
from buran.reporting.content import LEVEL, Answer, Report, start_and_end, startup_at_target, unknown_rows
from buran.reporting.tables import names_of, sentence
from buran.wording import named, shown_value

WORK = "basic_blocks"
"""The metric whose counts are the program's work."""
RISES = 0.05
"""Share of the whole: a smaller rise does not stop scaling."""
_LEAST = 0.1  # of the prediction, the lower end of its interval: below, not even its size is sure
_SAME = 1.1  # times as much is no growth worth the word
_NEAR = 0.1  # of 1, the exponent of what falls as 1/p
_WORST = 3


class Evidence(StrEnum):
    """What a rise is known from, the best first."""

    COUNTS = "exact counts"
    TIMES = "times"
    SMALL = "exact counts of little time"
    GUESS = "guess"


@dataclass(frozen=True)
class Rise:
    """A call path that takes more of the whole at the target than where one parameter is smallest.

    Attributes
    ----------
    first, last
        Values of the parameter; all others are those of the target.
    time, work
        Its shares of the predicted time, and of the counted work, at both; None where that is not known.
    gain
        By how much it rises, or along ranks and threads what the call path adds, as a part of the whole at the target.
    reason
        Why, in a few words.
    why_guess
        Why it is only a guess.
    """

    call_path: str
    parameter: str
    first: float
    last: float
    time: tuple[float, float] | None
    work: tuple[float, float] | None
    gain: float
    evidence: Evidence
    reason: str
    why_guess: str = ""


@dataclass(frozen=True, eq=False)
class _Parts:
    """What call paths take of a metric where one parameter is smallest and at the target; shape (call path, 2)."""

    models: ModelSet
    values: Array
    bounds: Array
    row: Mapping[str, int]

    @classmethod
    def of(cls, models: ModelSet, skip: NDArray[np.bool_] | None, bounds: Array) -> _Parts:
        values = np.nan_to_num(models.predict(bounds))
        if skip is not None:
            values[skip] = 0.0
        return cls(models, values, bounds, {name: row for row, name in enumerate(models.call_paths)})

    @cached_property
    def shares(self) -> Array:
        """Shares of the whole at both."""
        return np.asarray(self.values / np.where(self.whole > 0, self.whole, 1.0))

    @cached_property
    def whole(self) -> Array:
        """Shape (2,): all call paths."""
        return np.asarray(self.values.sum(axis=0))

    def share_of(self, path: str) -> tuple[float, float] | None:
        """Return the shares of a call path at both; None where nothing is known of it."""
        row = self.row.get(path)
        return None if row is None else (float(self.shares[row, 0]), float(self.shares[row, 1]))

    def gains(self, scaling: bool) -> Array:
        """Return shape (call path,): by how much the share rises.

        Along ranks and threads, a whole that grows does not excuse who grows with it: the gain is then what the call
        path adds, as a share of the whole at the target.
        """
        before, after = self.whole
        pace = min(1.0, before / after) if scaling and after > 0 else 1.0
        return np.asarray(self.shares[:, 1] - pace * self.shares[:, 0])

    def reason(self, row: int, parameter: int) -> str:
        """Say why a call path's part rises."""
        name, model = self.models.parameters[parameter], self.models.models[row]
        (before, after), rest = self.values[row], self.whole - self.values[row]
        falls = rest[1] < rest[0] / _SAME
        first, last = self.bounds[:, parameter].tolist()
        slope = np.log(rest[1] / rest[0]) / np.log(last / first) if falls and rest[1] > 0 and first > 0 else 0.0
        others = f"while the rest falls as 1/{name}" if abs(slope + 1) < _NEAR else "while the rest falls"
        lead = NO_GROWTH if model is None else model.function.lead(parameter)
        if after < before / _SAME:
            return f"falls less than the rest with {name}"
        if after <= before * _SAME:
            return f"constant in {name} {others}" if falls else f"constant in {name}"
        if lead > NO_GROWTH:
            return f"grows with {PowerLog(*lead).written(name, 'text')}"
        return f"grows with {name} up to a bound"


def rises_of(report: Report, call_paths: CallPaths | None) -> tuple[Rise, ...]:
    """Return what rises along each parameter by `RISES` of the whole, or more.

    Along what ranks and threads depend on first, then by evidence, then by the gain.
    """
    if call_paths is None:
        return ()
    counts, guesses = report.models.get(WORK), _Guesses(call_paths)
    rises: list[Rise] = []
    for name in varied(report, call_paths):
        times = _times(report, call_paths, name)
        works = None if counts is None or counts is call_paths.models else _Parts.of(counts, None, times.bounds)
        rises += _along(report, name, times, works, guesses)
    order = list(Evidence)
    return tuple(
        sorted(rises, key=lambda rise: (rise.parameter not in report.parallel, order.index(rise.evidence), -rise.gain))
    )


def varied(report: Report, call_paths: CallPaths) -> list[str]:
    """Return the parameters whose smallest measured value is below the target's, but for those that repeat work."""
    least = np.array(call_paths.models.points, dtype=np.float64).min(axis=0)
    below = (name for name, value in zip(report.parameters, least.tolist(), strict=True) if value < report.target[name])
    return [name for name in below if name not in report.steps]


def _times(report: Report, call_paths: CallPaths, name: str) -> _Parts:
    models = call_paths.models
    target = np.array([report.target[each] for each in models.parameters], dtype=np.float64)
    bounds, parameter = np.stack([target, target]), models.parameters.index(name)
    bounds[0, parameter] = min(point[parameter] for point in models.points)
    return _Parts.of(models, start_and_end(models) | unknown_rows(report, models), bounds)


def _along(report: Report, name: str, times: _Parts, works: _Parts | None, guesses: _Guesses) -> list[Rise]:
    """Return what rises along a parameter."""
    parameter = times.models.parameters.index(name)
    first, last = times.bounds[:, parameter].tolist()
    waits = {prior.call_path for prior in report.priors if prior.waiting.startswith("waiting")}
    found: dict[str, Rise] = {}
    gains = times.gains(name in report.parallel)
    for row in np.flatnonzero(gains >= RISES).tolist():
        path, why_guess = times.models.call_paths[row], guesses.of(row)
        reason = "waits for others" if path in waits else times.reason(row, parameter)
        evidence = Evidence.GUESS if why_guess else Evidence.TIMES
        time = times.share_of(path)
        found[path] = Rise(path, name, first, last, time, None, float(gains[row]), evidence, reason, why_guess)
    if works is None:
        return list(found.values())
    sure, gains = float(times.values[~guesses.rows, 1].sum()), works.gains(name in report.parallel)
    for row in np.flatnonzero(gains >= RISES).tolist():
        path, model = works.models.call_paths[row], works.models.models[row]
        if not _is_proven(model, works.models, parameter) or path in report.unsteady.get(WORK, ()):
            continue
        timed = times.row.get(path)
        large = timed is None or times.values[timed, 1] >= RISES * max(sure, times.values[timed, 1])
        evidence, reason = Evidence.COUNTS if large else Evidence.SMALL, works.reason(row, parameter)
        time, work = times.share_of(path), works.share_of(path)
        found[path] = Rise(path, name, first, last, time, work, float(gains[row]), evidence, reason)
    return list(found.values())


def _is_proven(model: Model | None, counts: ModelSet, parameter: int) -> bool:
    """Tell whether counts prove how they grow with a parameter."""
    if model is None or not model.quality.smape <= 100 * OF_MEANS:
        return False
    if passes_through(model.function, np.array(counts.points)):
        return False
    return leads_of(model, parameter).get(model.function.lead(parameter), 0.0) >= NEARLY


def leads_of(model: Model, parameter: int) -> dict[Lead, float]:
    """Return the weights of the different ways in which a model's hypotheses grow with a parameter."""
    if not model.alternatives:
        return {model.function.lead(parameter): 1.0}
    out: dict[Lead, float] = {}
    for alternative in model.alternatives:
        lead = alternative.function.lead(parameter)
        out[lead] = out.get(lead, 0.0) + alternative.weight
    return out


class _Guesses:
    """Which models of call paths prove nothing: they do not fit measurements, or even the size is uncertain."""

    def __init__(self, call_paths: CallPaths) -> None:
        self.call_paths = call_paths
        models = call_paths.models.models
        self.smape = np.array([np.nan if model is None else model.quality.smape for model in models], dtype=np.float64)
        self.rows = ~(self.smape <= 100 * STEADY) | (call_paths.lower < _LEAST * call_paths.at_target)

    def of(self, row: int) -> str:
        """Say why; empty where a model can."""
        if not self.rows[row]:
            return ""
        if not np.isfinite(self.call_paths.upper[row]):
            return "too few points for an interval"
        if self.smape[row] <= 100 * STEADY:
            reach = f"{self.call_paths.lower[row]:.2g} to {self.call_paths.upper[row]:.2g}"
            return f"{100 * LEVEL:.0f} % interval {reach} {self.call_paths.unit}"
        return (
            "nothing shows how well its model fits" if np.isnan(self.smape[row]) else f"SMAPE {self.smape[row]:.2g} %"
        )


@dataclass(frozen=True)
class Headline:
    """What a report begins with.

    Attributes
    ----------
    first
        What features say before all else, as what became of an earlier version.
    scaling
        What stops the program from scaling.
    further
        What other features say of that.
    rises
        What that is made from.
    """

    first: tuple[Answer, ...]
    scaling: Answer
    further: tuple[Answer, ...] = ()
    rises: tuple[Rise, ...] = ()


def headline_of(report: Report, call_paths: CallPaths | None, no_models: str) -> Headline:
    """Return what a report begins with."""
    rises = rises_of(report, call_paths)
    scaling = _scaling(report, call_paths, rises, no_models)
    return Headline(_of_features(report, first=True), scaling, _of_features(report, first=False), rises)


def _of_features(report: Report, *, first: bool) -> tuple[Answer, ...]:
    """Return what the sections of features say before, or after what stops the program from scaling."""
    sections = [(each, value) for each, value in sections_of(report) if each.is_first is first]
    answers = (each.answer(value, report) for each, value in sections if each.answer is not None)
    return tuple(answer for answer in answers if answer is not None)


def _scaling(report: Report, call_paths: CallPaths | None, rises: Sequence[Rise], no_models: str) -> Answer:
    """Name what rises along ranks and threads: what is proven first, guesses as such; else say that nothing does.

    A rise along another parameter is no loss of scaling. It is named in addition, or where nothing else varies.
    """
    question = "Where does it stop scaling?"
    if call_paths is None:
        return Answer(question, "Not known", [f"There are no models: {no_models}."])
    if not (call_paths.shares[0] > 0).any():
        return Answer(question, "Not known", ["All is 0."])
    names = varied(report, call_paths)
    along = [name for name in names if name in report.parallel]
    if not along:
        question, along = "What takes over as it grows?", names
    far = ", ".join(f"{name}={shown_value(report.target[name])}" for name in along) or named(report.target)
    metric = call_paths.models.metric
    along_it = [rise for rise in rises if rise.parameter in along]
    proven = [rise for rise in along_it if rise.evidence is not Evidence.GUESS]
    guesses = [rise for rise in along_it if rise.why_guess]
    unknown = report.unknown.call_paths if report.unknown.advice else ()
    row = int(np.nan_to_num(call_paths.shares[0]).argmax())
    largest = call_paths.models.call_paths[row]
    shown = names_of([largest, *unknown[:1], *(rise.call_path for rise in rises)])
    marked = [
        f"A guess, not to be trusted: {shown[rise.call_path]}, {rise_in_words(rise, metric)}; {rise.why_guess}"
        for rise in guesses[:_WORST]
    ]
    if proven:
        first, *others = (
            rise for k, rise in enumerate(proven) if rise.call_path not in {each.call_path for each in proven[:k]}
        )
        facts = [f"{sentence(first.reason, ())}{_by_counts(first, metric)}", rise_in_words(first, metric)]
        facts += _why_guess(first.call_path, call_paths)
        facts += [
            f"Then {shown[rise.call_path]}, {rise_in_words(rise, metric)}: {rise.reason}" for rise in others[:_WORST]
        ]
        facts += [*marked, *_whole(report, call_paths, first.parameter)]
        path = first.call_path
        answer = shown[path]
    else:
        sure = " that can be trusted" if guesses or unknown else ""
        answer = f"Nothing{sure} up to {far}"
        answer += f"; a guess: {shown[guesses[0].call_path]}" if guesses else ""
        answer += f"; not known: {shown[unknown[0]]}" if unknown else ""
        path = largest
        gains = f"gains {100 * RISES:.0f} % of the {metric} or of the counted work"
        facts = [*marked, f"No call path{sure} {gains}"]
        for name in along:
            facts += _whole(report, call_paths, name)
        facts += [f"Largest there: {shown[path]}, {100 * call_paths.shares[0][row]:.0f} %"]
    named_above = path if proven else ""
    sizes = [
        rise for rise in rises if rise.parameter not in along and not rise.why_guess and rise.call_path != named_above
    ]
    facts += [
        f"No loss of scaling, along a size: {shown[rise.call_path]}, {rise_in_words(rise, metric)}: {rise.reason}"
        for rise in sizes[:1]
    ]
    return Answer(question, answer, [*facts, *_apart(report, call_paths)])


def _whole(report: Report, call_paths: CallPaths, name: str) -> list[str]:
    """Say what all call paths take where a parameter is smallest and at the target; nothing where not all is known."""
    if report.unknown.advice:
        return []
    times, unit = _times(report, call_paths, name), call_paths.unit
    (before, after), value = times.whole.tolist(), times.bounds[0, times.models.parameters.index(name)]
    return [f"All call paths take {before:.3g} {unit} at {name}={value:g}, {after:.3g} {unit} at the target"]


def _by_counts(rise: Rise, metric: str) -> str:
    """Say how sure a reason is."""
    return ": its basic blocks are exact" if rise.work else f", by models of its {metric.replace('time', 'times')}"


def rise_in_words(rise: Rise, metric: str) -> str:
    """Return both shares, of the counted work before those of time."""
    parts = [
        (whole, *(f"{100 * part:.0f} %" for part in share))
        for share, whole in ((rise.work, "counted work"), (rise.time, metric))
        if share is not None
    ]
    whole, first, last = parts[0]
    text = f"{first} of the {whole} at {rise.parameter}={rise.first:g}, {last} at {rise.parameter}={rise.last:g}"
    return "; ".join((text, *(f"of the {whole} {first} and {last}" for whole, first, last in parts[1:])))


def _why_guess(name: str, call_paths: CallPaths) -> list[str]:
    """Say how sure the prediction of a call path is, apart from that of the whole program."""
    if name not in call_paths.models.call_paths:
        return ["Its time was not measured: it is not instrumented in the builds for times"]
    row, unit = call_paths.models.call_paths.index(name), call_paths.unit
    model, at = call_paths.models.models[row], call_paths.at_target[row]
    if model is None or np.isnan(at):
        return ["Its time there is not known"]
    if np.isnan(call_paths.lower[row]):
        return [f"{at:.3g} {unit} there, without an interval: too few points"]
    reach = f"{call_paths.lower[row]:.3g} to {call_paths.upper[row]:.3g} {unit}"
    return [f"{at:.3g} {unit} there; {100 * LEVEL:.0f} % interval {reach}; SMAPE {model.quality.smape:.2g} %"]


def _apart(report: Report, call_paths: CallPaths) -> list[str]:
    """Name the time of start-up and shutdown where it is worth a sentence."""
    seconds = startup_at_target(report)
    if seconds <= RISES * float(np.nansum(call_paths.at_target[~start_and_end(call_paths.models)])):
        return []
    return [f"Start-up and shutdown, in no share: {seconds:.3g} s there"]
