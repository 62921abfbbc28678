"""Conditions under which a comparison fails, for checks of every change: ``grown:10%``, ``class``, ``counts``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from buran.campaign.mistakes import did_you_mean, listed
from buran.errors import UsageError
from buran.plugins.versions.counts import CALLS
from buran.plugins.versions.difference import Comparison, Difference
from buran.plugins.versions.side import RUNTIME
from buran.profiles.metrics import metric_of, noise_resilient, table

Kind = Literal["grown", "runtime", "class", "effort", "counts", "new", "worse"]
KINDS: dict[str, str] = {
    "grown": "the time of a call path, or of the whole program, has grown",
    "runtime": "the time of the whole program has grown",
    "class": "time, basic blocks or bytes of a call path, or the whole program's time, grow faster with a parameter",
    "effort": "basic blocks or bytes of a call path have grown",
    "counts": "an exact count of any call path is another one, less or more, or MPI operations came or went",
    "new": "a call path is there that was not there before",
    "worse": "a figure of merit is worse, as `better` of its key says",
}
_WITH_PERCENT = ("grown", "runtime", "effort")
_TIMES = ("time", RUNTIME)
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")


@dataclass(frozen=True)
class Condition:
    """A condition.

    Attributes
    ----------
    above
        Growth up to this share of what was there before is allowed.
    """

    kind: Kind
    above: float = 0.0

    def __str__(self) -> str:
        return f"{self.kind}:{100 * self.above:g}%" if self.above else self.kind


@dataclass(frozen=True)
class Broken:
    """A condition that came true, and where."""

    condition: str
    metric: str
    call_path: str


def parse_conditions(texts: Sequence[str]) -> tuple[Condition, ...]:
    """Read conditions, each text with one or several of them, separated by commas.

    Raises
    ------
    UsageError
        With what is allowed.
    """
    conditions = [_parse(part.strip()) for text in texts for part in text.split(",")]
    return tuple(dict.fromkeys(conditions))


def _parse(text: str) -> Condition:
    kind, colon, percent = (part.strip() for part in text.partition(":"))
    where = f"--fail-on {text}".rstrip()
    if kind not in KINDS:
        what = f"{kind!r} is no condition; allowed are {listed(list(KINDS))}" if kind else "a condition is missing"
        raise UsageError(
            what, where=where, hint=did_you_mean(kind, list(KINDS)) or f"allowed are {listed(list(KINDS))}"
        )
    if not colon:
        return Condition(kind)  # type: ignore[arg-type]
    match = _PERCENT.fullmatch(percent)
    if kind not in _WITH_PERCENT or match is None:
        only = f"only {listed(list(_WITH_PERCENT))} take a percentage, as in grown:10%"
        raise UsageError(f"{percent!r} cannot follow {kind!r}", where=where, why=only)
    return Condition(kind, float(match[1]) / 100)  # type: ignore[arg-type]


def broken_by(comparison: Comparison, conditions: Sequence[Condition]) -> tuple[Broken, ...]:
    """Return where conditions came true; only call paths that matter count.

    Growth counts where it is certain: ``grown:10%`` where even the lower end of the interval lies above 10 %.

    Raises
    ------
    UsageError
        A condition can never come true: what it asks for was not measured, or models leave all of it open.
    """
    return tuple(broken for condition in conditions for broken in _broken_by(comparison, condition))


def _broken_by(comparison: Comparison, condition: Condition) -> list[Broken]:
    if condition.kind == "new":
        return [
            Broken(str(condition), growth.metric, growth.call_path)
            for growth in comparison.new
            if growth.share >= comparison.share
            and (growth.metric == "time" or metric_of(growth.metric).noise_resilient)
        ]
    exact = noise_resilient(table())
    metrics_of = {"runtime": (RUNTIME,), "effort": exact, "counts": (*exact, CALLS), "class": (*_TIMES, *exact)}
    metrics_of["worse"] = tuple(comparison.better)
    metrics = metrics_of.get(condition.kind, _TIMES)
    concerned = [
        difference for difference in comparison.differences if difference.metric in metrics and difference.matters
    ]
    if not concerned:
        raise UsageError(
            "a condition cannot be checked",
            where=f"--fail-on {condition}",
            why=f"{' or '.join(metrics) or 'no figure with key better'} was not measured in both campaigns",
            hint="leave the condition out, or measure the metric in both",
        )
    if all(difference.verdict == "undecided" for difference in concerned):
        raise UsageError(
            "a condition cannot be checked",
            where=f"--fail-on {condition}",
            why="the models of one campaign have too few points or repetitions for intervals: nothing is decided",
            hint="measure more points of both campaigns",
        )
    true = [
        Broken(str(condition), difference.metric, difference.call_path)
        for difference in concerned
        if (comparison.meaning(difference) == "worse" if condition.kind == "worse" else _holds(difference, condition))
    ]
    if condition.kind == "counts":
        true += [Broken(str(condition), "visits", path) for path in comparison.operations]
    return true


def _holds(difference: Difference, condition: Condition) -> bool:
    if condition.kind == "class":
        return bool(difference.faster_in)
    if condition.kind == "counts":
        return difference.exact and difference.verdict in ("grown", "shrunk")
    return difference.verdict == "grown" and difference.grown_by > condition.above
