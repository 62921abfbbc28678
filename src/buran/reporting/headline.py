"""What a report begins with: what changed, and what stops the program from scaling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from buran.features import sections_of
from buran.reporting.call_paths import CallPaths
from buran.reporting.content import LEVEL, Answer, Report, start_and_end, total_at_target
from buran.reporting.plain import names_of, sentence
from buran.reporting.rises import RISES, Evidence, Rise, rises_of, varied, whole_along
from buran.wording import named, shown_value

_WORST = 3


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
    value, before, after = whole_along(report, call_paths, name)
    unit = call_paths.unit
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
    total, apart = total_at_target(report), start_and_end(call_paths.models)
    seconds = float(np.nansum(call_paths.at_target[apart])) if total is None else total.startup_s
    if seconds <= RISES * float(np.nansum(call_paths.at_target[~apart])):
        return []
    return [f"Start-up and shutdown, in no share: {seconds:.3g} s there"]
