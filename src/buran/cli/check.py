"""``buran check``: whether a campaign file is right, and what it asks for."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from buran.cli.arguments import add_campaign_file, add_loudness, add_profile
from buran.cli.terminal import is_quiet, style, table
from buran.errors import Exit
from buran.wording import counted, named

if TYPE_CHECKING:
    from buran.campaign.config import Campaign
    from buran.campaign.point import Point
    from buran.errors import ToolError
    from buran.measurement.schedulers.base import Scheduler

_COUNTS = ("ranks", "cores", "nodes")
HELP = "check a campaign file and show what it requests; nothing is built or run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_campaign_file(parser)
    add_profile(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_loudness(parser, "name every point")


def run(arguments: argparse.Namespace) -> int:
    """Print a summary, or all mistakes.

    Raises
    ------
    CampaignError
        With the mistakes, unless they are printed as JSON.
    ToolError
        The measurement system is missing here, after the summary.
    """
    from buran.campaign.mistakes import CampaignError
    from buran.measurement.backends.base import SYSTEMS

    try:
        campaign, scheduler, job = _checked(arguments)
    except CampaignError as error:
        if not arguments.json:
            raise
        mistakes = [mistake.as_json() for mistake in error.mistakes]
        print(json.dumps({"file": str(arguments.file), "valid": False, "mistakes": mistakes}, indent=2))
        return int(Exit.USAGE)
    summary = summarise(campaign)
    obstacle = SYSTEMS.load(campaign.config.backend).obstacle(campaign)
    summary["notes"] += _notes_ahead(campaign, scheduler, job, obstacle)
    warn_of_redirection(campaign)
    if arguments.json:
        print(json.dumps({"file": str(arguments.file), "valid": True, **summary}, indent=2))
    elif not is_quiet():
        print(_as_text(campaign, summary))
        if arguments.verbose:
            print(f"\n{_points(campaign)}")
    if obstacle is not None:
        raise obstacle
    return int(Exit.DONE)


def _checked(arguments: argparse.Namespace) -> tuple[Campaign, Scheduler, str]:
    """Return the campaign as it would be measured, what schedules it, and what the job around us has room for."""
    from buran.campaign.load import load_campaign
    from buran.files import try_folder
    from buran.measurement.backends.base import check_system
    from buran.measurement.schedulers.base import NONE, spread
    from buran.workflow.collect import foreign_points
    from buran.workflow.correct import check_base_models
    from buran.workflow.engine.controller import find_profile
    from buran.workflow.engine.partition import check_now, local_room

    campaign = load_campaign(arguments.file)
    check_system(campaign)
    check_base_models(campaign)
    foreign_points(campaign)
    try_folder(campaign.results_root)
    where = find_profile(arguments.profile)
    if where.scheduler is not NONE and not campaign.is_simulated:
        return check_now(campaign, where.scheduler), where.scheduler, ""
    if where.executor == "local":
        partitions, job = local_room(campaign)
        return spread(campaign, partitions), where.scheduler, job
    return campaign, where.scheduler, ""


def _notes_ahead(campaign: Campaign, scheduler: Scheduler, job: str, obstacle: ToolError | None) -> Iterator[str]:
    """Yield what is known before anything runs."""
    from buran.features import FEATURES
    from buran.measurement.schedulers.base import NONE
    from buran.reporting.summary import simulated
    from buran.workflow.notes import sharing_ahead

    yield from filter(None, [job])
    yield from (sharing_ahead if scheduler is NONE and not job else simulated)(campaign)
    if obstacle is not None:
        yield f"`buran run` would fail here: {obstacle.line}"
    for feature in FEATURES:
        yield from () if feature.ahead is None else feature.ahead(campaign, scheduler)


def warn_of_redirection(campaign: Campaign) -> None:
    """Warn if the output of this command goes into a file of the sources, which then change while they are built."""
    folder = campaign.source.resolve()
    for handle in (1, 2):
        with contextlib.suppress(OSError):
            file = Path(f"/proc/self/fd/{handle}").readlink()
            if file.is_file() and file.is_relative_to(folder) and not file.is_relative_to(campaign.results_root):
                print(
                    f"{style('warning:', 'yellow', sys.stderr)} the output of this command goes into {file}, inside "
                    "program.source: the sources would change while they are built. Redirect it elsewhere",
                    file=sys.stderr,
                )
                return


def summarise(campaign: Campaign) -> dict[str, Any]:
    """Return what a campaign asks for, as plain data."""
    points = (*campaign.points, *campaign.evaluation_points)
    counts = [_counts(campaign, point) for point in points]
    return {
        "name": campaign.name,
        "digest": campaign.digest(),
        "results": str(campaign.results_root),
        "environment": campaign.environment,
        "parameters": {name: sorted({point[name] for point in campaign.points}) for name in campaign.parameters},
        "points": len(campaign.points),
        "evaluation_points": len(campaign.evaluation_points),
        "points_dropped_by_constraints": campaign.points_dropped,
        "points_held_out_for_evaluation": campaign.points_held_out,
        "timed_runs_per_variant": len(points) * campaign.repetitions,
        **{name: [min(each), max(each)] for name, each in zip(_COUNTS, zip(*counts, strict=True), strict=True)},
        "expected_core_hours_per_variant": campaign.minimum_core_hours(points, campaign.repetitions),
        "budget_core_hours": campaign.config.budget.core_hours,
        "budget_percent_of_full_matrix": campaign.config.budget.percent_of_full_matrix,
        "strategy": campaign.config.strategy.name,
        "notes": list(campaign.notes),
    }


def _counts(campaign: Campaign, point: Point) -> tuple[int, int, int]:
    """Return ranks, cores and nodes of a run."""
    return campaign.ranks(point), campaign.cores(point), campaign.placement(point).nodes


def _as_text(campaign: Campaign, summary: dict[str, Any]) -> str:
    points = f"{summary['points']} for modelling, {summary['evaluation_points']} for evaluation"
    points += f"; constraints removed {campaign.points_dropped}" if campaign.points_dropped else ""
    points += f"; {campaign.points_held_out} for evaluation only" if campaign.points_held_out else ""
    hours = summary["expected_core_hours_per_variant"]
    unknown = "unknown before the first measurement (see resources.expected_time)"
    expected = unknown if hours is None else f"{hours:.4g} core hours"
    rows = [
        ("campaign", f"{campaign.name} ({summary['digest']})"),
        ("results", summary["results"]),
        ("machine", "; ".join(_environment(variant) for variant in campaign.in_environments.values())),
        *((name, _values(values)) for name, values in summary["parameters"].items()),
        ("points", points),
        ("runs", _runs(campaign, summary["timed_runs_per_variant"])),
        *((name, " to ".join(map(str, dict.fromkeys(summary[name])))) for name in _COUNTS),
        ("expected", expected),
        ("budget", _budget(campaign)),
        *(("note", note) for note in summary["notes"]),
    ]
    width = max(len(label) for label, _ in rows) + 2
    return "\n".join(f"{label + ':':<{width}}{text}" for label, text in rows)


def _environment(campaign: Campaign) -> str:
    keys = campaign.active_environment
    compiler = "" if keys.compiler == "auto" else f", compiler {keys.compiler}"
    flags = f", flags {keys.extra_flags}" if keys.extra_flags else ""
    return f"{campaign.environment}, launcher {keys.launcher}{compiler}{flags}"


def _points(campaign: Campaign) -> str:
    """Return a table of all points."""
    of = {"modelling": campaign.points, "evaluation": campaign.evaluation_points}
    rows = [(named(point), use, *_counts(campaign, point)) for use, points in of.items() for point in points]
    return table(("point", "for", *_COUNTS), rows, right=(2, 3, 4))


def _values(values: list[int | float]) -> str:
    if len(values) <= 10:
        return ", ".join(map(str, values))
    return f"{values[0]}, {values[1]}, ..., {values[-1]} ({len(values)} values)"


def _budget(campaign: Campaign) -> str:
    budget = campaign.config.budget
    parts = []
    if budget.core_hours is not None:
        parts.append(f"{budget.core_hours:g} core hours")
    if budget.percent_of_full_matrix is not None:
        parts.append(f"{budget.percent_of_full_matrix:g} % of the full matrix")
    if parts:
        return ", ".join(parts) + ("; the smaller one counts" if len(parts) == 2 else "")
    config = campaign.config
    endless = _most_runs(campaign) and config.goal != "filter" and config.strategy.accuracy_percent is None
    return "none: all runs of all points may be made; set budget.core_hours" if endless else "none"


def _runs(campaign: Campaign, timed: int) -> str:
    if (most := _most_runs(campaign)) is None:
        return f"{counted(timed, 'timed run')} of each build variant, all points measured"
    return f"strategy {campaign.config.strategy.name} chooses them, {most} of each point at most"


def _most_runs(campaign: Campaign) -> int | None:
    """Return how many timed runs of a point there may be where the strategy decides of that; else None."""
    from buran.campaign.strategies import abilities_of

    strategy = campaign.config.strategy
    return None if abilities_of(strategy.name).all_at_once else campaign.most_repetitions
