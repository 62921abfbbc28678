"""The earlier version of a program that a campaign begins with: its models, its points, its filter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from buran.campaign.config import Campaign
from buran.campaign.document import below
from buran.campaign.layout import FINDINGS, REPORT, results_folder
from buran.campaign.mistakes import CampaignError, Mistake
from buran.campaign.point import Point
from buran.errors import FormatError, UsageError
from buran.files import read_json
from buran.plugins.versions import KEY, name_of_earlier
from buran.plugins.versions.compare import compare_sides
from buran.plugins.versions.side import RUNTIME, Side, side_of_results
from buran.plugins.versions.text import since
from buran.profiles.metrics import metric_of
from buran.workflow.findings import Findings

if TYPE_CHECKING:
    from buran.planning.question import RunTimes
    from buran.workflow.history import History


@dataclass(frozen=True)
class EarlierVersion:
    """An earlier version of the program.

    Attributes
    ----------
    points
        Points that its models were made from and that the campaign has too, cheapest first.
    filter_text
        Filter of its times.
    shortest_run_s
        Shortest run without instrumentation.
    """

    side: Side
    points: tuple[Point, ...]
    filter_text: str
    shortest_run_s: float

    @property
    def pilot_points(self) -> tuple[Point, ...]:
        """The two smallest points, and the end of each line.

        A line goes from the smallest point along one parameter. There the program is as large as it gets for the cost,
        and a change that grows with any parameter shows.
        """
        first = self.points[0]
        chosen = {*self.points[:2]}
        for name in first:
            line = [point for point in self.points if all(point[n] == first[n] for n in first if n != name)]
            chosen.add(max(line, key=lambda point: float(point[name])))
        return tuple(point for point in self.points if point in chosen)

    def run_times(self, points: Sequence[Point]) -> RunTimes:
        """Return what runs are predicted to take."""
        models = self.side.models.get(RUNTIME)
        if models is None:
            return {}
        at = np.array([[point[name] for name in models.parameters] for point in points], dtype=np.float64)
        values = zip(points, (float(models.predict(row[None])[0, 0]) for row in at), strict=True)
        return {point: max(value, self.shortest_run_s) for point, value in values if np.isfinite(value)}

    def judge(self, history: History) -> tuple[bool, str]:
        """Return whether nothing has changed, and what was found.

        As long as no time can be compared, it is not known that nothing has changed.
        """
        last = history.plans[-1].iteration
        findings, campaign = history.findings(last), history.session.campaign
        models = dict(history.models(last))
        if not models:
            return True, "no run succeeded: there is nothing to compare"
        if findings.runtime is not None:
            models[RUNTIME] = findings.runtime
        now = Side("", campaign.parameters, campaign.target, models, history.table(last), findings.unsteady)
        try:
            compared = compare_sides(self.side, now)
        except UsageError as error:
            return False, f"not compared with {self.side.name}: {error.what}"
        times = [row for row in compared.differences if row.metric == "time" and row.matters]
        is_open = bool(times) and all(row.verdict == "undecided" for row in times)
        return not (is_open or compared.of("grown", "shrunk")), since(compared)


def earlier_results(campaign: Campaign) -> Path | None:
    """Return the folder with the results of the earlier version; None without one.

    Raises
    ------
    UsageError
        It has none.
    """
    named = name_of_earlier(campaign)
    return None if named is None else results_folder(below(campaign.folder, named))


def comparison_mistakes(campaign: Campaign) -> Iterator[Mistake]:
    """Check that the earlier version has results that stay what they are while this campaign runs."""
    key = (KEY,)
    try:
        folder = earlier_results(campaign)
    except UsageError as error:
        yield Mistake(key, error.what, error.why, error.hint)
        return
    if folder is None:
        return
    before = read_json(folder / REPORT)
    if isinstance(before, Mapping) and bool(before.get("simulated_on")) != campaign.is_simulated:
        what = f"the earlier version was {'measured' if campaign.is_simulated else 'simulated'}, and this one is not"
        why = "simulated and measured times are not mixed"
        yield Mistake(key, what, why, "compare reports: buran report --compare")
    if campaign.config.goal == "filter":
        what = "a filter is the goal, but a comparison with an earlier version takes its filter"
        yield Mistake(("goal",), what, hint="leave goal or compare_with out")
    if below(campaign.folder, str(name_of_earlier(campaign))) in (campaign.path, campaign.results_root / "latest"):
        why = "its results are replaced when it has run"
        hint = f"name a folder that stays, such as {campaign.results_root.name}/reports/{folder.name}, or a copy of it"
        yield Mistake(key, "a campaign cannot be compared with itself", why, hint)


def read_earlier(campaign: Campaign) -> EarlierVersion | None:
    """Read the results that a campaign is compared with; None if there are none.

    Raises
    ------
    CampaignError
        They cannot be compared with what this campaign measures.
    """
    folder = earlier_results(campaign)
    if folder is None:
        return None
    try:
        side = side_of_results(folder, str(name_of_earlier(campaign)))
        findings = Findings.read(folder / FINDINGS)
    except FormatError as error:
        raise _mistake(campaign, error.what, error.why, error.hint) from error
    if side.parameters != campaign.parameters:
        why = f"{', '.join(side.parameters)} there, {', '.join(campaign.parameters)} here"
        raise _mistake(campaign, "the earlier version was measured over other parameters", why)
    shared = {name for name in campaign.config.metrics if name == "time" or metric_of(name).noise_resilient}
    shared &= set(side.models)
    if not shared:
        why = "it ended without models, or none of its metrics is measured here"
        raise _mistake(campaign, "the earlier version has no models to compare with", why)
    measured = {point for metric in sorted(shared) for point in side.models[metric].points}
    points = tuple(
        point for point in campaign.points if tuple(float(point[name]) for name in side.parameters) in measured
    )
    if not points:
        why = "no point of this campaign was measured there"
        raise _mistake(campaign, "the two versions have no point in common", why, "give this campaign points of it")
    return EarlierVersion(side, points, findings.filter_text, findings.shortest_run_s)


def _mistake(campaign: Campaign, what: str, why: str | None = None, hint: str | None = None) -> CampaignError:
    path: Path = campaign.path
    return CampaignError([Mistake((KEY,), what, why, hint, path)])
