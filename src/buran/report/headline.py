"""What a report begins with: what changed, and what stops the program from scaling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from buran.features import sections_of
from buran.report.call_paths import CallPaths
from buran.report.content import LEVEL, Answer, Report, start_and_end, total_at_target
from buran.report.plain import name_of, sentence
from buran.report.rises import RISES, Evidence, Rise, rises_of, varied, whole_along
from buran.wording import named, shown_value

_WORST = 3
_PAYS = 0.5  # of the cores' time: where less is of use, more ranks no longer pay
_ERRORS = 2.0  # standard errors from which on two predictions differ
_CONTRADICTS = 0.5  # of the prediction: models that differ by less tell the same story


@dataclass(frozen=True)
class Headline:
    """What a report begins with.

    Attributes
    ----------
    changes
        What became of an earlier version; None without one.
    scaling
        What stops the program from scaling.
    efficiency
        How far more ranks pay, where the campaign says what they mean; None where it does not.
    rises
        What that is made from.
    """

    changes: Answer | None
    scaling: Answer
    rises: tuple[Rise, ...] = ()
    efficiency: Answer | None = None


def headline_of(report: Report, call_paths: CallPaths | None, no_models: str) -> Headline:
    """Return what a report begins with."""
    rises = rises_of(report, call_paths)
    return Headline(_changes(report), _scaling(report, call_paths, rises, no_models), rises, _efficiency(report))


def _changes(report: Report) -> Answer | None:
    """Return what the sections of features have to say first."""
    answers = (each.answer(value, report) for each, value in sections_of(report) if each.answer is not None)
    return next((answer for answer in answers if answer is not None), None)


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
    here = [rise for rise in rises if rise.parameter in along]
    proven = [rise for rise in here if rise.evidence is not Evidence.GUESS]
    guesses = [rise for rise in here if rise.why_guess]
    unknown = report.unknown.call_paths if report.unknown.advice else ()
    marked = [
        f"A guess, not to be trusted: {name_of(rise.call_path)}, {rise_in_words(rise, metric)}; {rise.why_guess}"
        for rise in guesses[:_WORST]
    ]
    if proven:
        first, *others = (
            rise for k, rise in enumerate(proven) if rise.call_path not in {each.call_path for each in proven[:k]}
        )
        facts = [f"{sentence(first.reason, ())}{_by_counts(first)}", rise_in_words(first, metric)]
        facts += _why_guess(first.call_path, call_paths)
        facts += [
            f"Then {name_of(rise.call_path)}, {rise_in_words(rise, metric)}: {rise.reason}" for rise in others[:_WORST]
        ]
        facts += [*marked, *_whole(report, call_paths, first.parameter)]
        path = first.call_path
        answer = name_of(path)
    else:
        sure = " that can be trusted" if guesses or unknown else ""
        answer = f"Nothing{sure} up to {far}"
        answer += f"; a guess: {name_of(guesses[0].call_path)}" if guesses else ""
        answer += f"; not known: {name_of(unknown[0])}" if unknown else ""
        row = int(np.nan_to_num(call_paths.shares[0]).argmax())
        path = call_paths.models.call_paths[row]
        gains = f"gains {100 * RISES:.0f} % of the {metric} or of the counted work"
        facts = [*marked, f"No call path{sure} {gains}"]
        for name in along:
            facts += _whole(report, call_paths, name)
        facts += [f"Largest there: {name_of(path)}, {100 * call_paths.shares[0][row]:.0f} %"]
    named_above = path if proven else ""
    sizes = [
        rise for rise in rises if rise.parameter not in along and not rise.why_guess and rise.call_path != named_above
    ]
    facts += [
        f"No loss of scaling, along a size: {name_of(rise.call_path)}, {rise_in_words(rise, metric)}: {rise.reason}"
        for rise in sizes[:1]
    ]
    return Answer(question, answer, [*facts, *_contradiction(path, report), *_apart(report, call_paths)])


def _efficiency(report: Report) -> Answer | None:
    """Say up to how many ranks it pays to divide one amount of work, or how well ranks use more of it."""
    table = report.efficiency
    if table is None or not table.asked:
        return None
    question = "Up to how many ranks does it pay?" if table.divided else "How efficient is it at the target?"
    facts = [table.contradiction] if table.contradiction else []
    if not table.along or table.target is None or not np.isfinite([efficiency for _, efficiency in table.along]).all():
        return Answer(question, "Not known", [*facts, "There are no models of the times of all call paths"])
    (fewest, _), *_, (most, at_target) = table.along
    percent, reach = f"{100 * at_target:.0f} %", table.target.global_interval
    interval = "" if reach is None else f"; {100 * LEVEL:.0f} % interval {100 * reach[0]:.0f} to {100 * reach[1]:.0f} %"
    paying = [ranks for ranks, _ in takewhile(lambda each: each[1] >= _PAYS, table.along)]
    last = f"{max(paying):g}" if paying else f"less than {fewest:g}"
    if not table.divided:
        half = "" if most in paying else f"; {100 * _PAYS:.0f} % up to {last} ranks"
        return Answer(question, percent, [f"Of the speed on {fewest:g} ranks{interval}{half}", *facts])
    fastest, efficiency = max(table.along, key=lambda each: each[0] * each[1])
    if fastest < most:
        facts.append(
            f"Fastest on {fastest:g} ranks, {fastest * efficiency / fewest:.3g} times as fast as on {fewest:g}"
        )
    if most in paying:
        return Answer(question, f"{last}, the target", [f"There {percent} of all cores is of use{interval}", *facts])
    beyond = f"Beyond, less than {100 * _PAYS:.0f} % of all cores is of use; on {most:g} ranks {percent}{interval}"
    return Answer(question, last, [beyond, *facts])


def _whole(report: Report, call_paths: CallPaths, name: str) -> list[str]:
    """Say what all call paths take where a parameter is smallest and at the target; nothing where not all is known."""
    if report.unknown.advice:
        return []
    value, before, after = whole_along(report, call_paths, name)
    unit = call_paths.unit
    return [f"All call paths take {before:.3g} {unit} at {name}={value:g}, {after:.3g} {unit} at the target"]


def _by_counts(rise: Rise) -> str:
    """Say how sure a reason is."""
    return ": its basic blocks are exact" if rise.work else ", by models of its times"


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


def _contradiction(name: str, report: Report) -> list[str]:
    """Say where times alone would tell another story than counts, which of both is shown, and why."""
    prior = next((prior for prior in report.priors if prior["call_path"] == name and prior["prior"]), None)
    if prior is None or prior["difference_s"] is None or prior["difference_error_s"] is None:
        return []
    gap, at = prior["difference_s"], prior["at_target_s"] or 0.0
    if abs(gap) <= max(_ERRORS * prior["difference_error_s"], _CONTRADICTS * at):
        return []
    return [
        f"Times of {name_of(name)} alone say {at + gap:.3g} s there; shown is what its counts say, as these have no "
        "noise: they give the growth, times only the cost of a unit of work"
    ]


def _apart(report: Report, call_paths: CallPaths) -> list[str]:
    """Name the time of start-up and shutdown where it is worth a sentence."""
    total, apart = total_at_target(report), start_and_end(call_paths.models)
    seconds = float(np.nansum(call_paths.at_target[apart])) if total is None else total.ends_s
    if seconds <= RISES * float(np.nansum(call_paths.at_target[~apart])):
        return []
    return [f"Start-up and shutdown, in no share: {seconds:.3g} s there"]
