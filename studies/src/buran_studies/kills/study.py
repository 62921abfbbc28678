"""The study `kills`: campaigns whose parts are killed at their renames, checkpoint updates and other calls."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from buran_studies.evaluation.evaluation import Evaluation, Figure, Kind, Table
from buran_studies.evaluation.study import NEEDS, RESULTS, Settings, Shard
from buran_studies.kills.campaign import Harassed, derived, harass, harass_steps, write_campaign

KILLS = {"default": 1000, "steps": 1000, "measured": 100, "measured-steps": 100}
"""Kills by preset: of `buran run` and all that it starts, or of the steps alone, without an engine."""
_QUICK_KILLS = 10
_SHARE = 50  # kills of a shard, in as many campaigns as that takes


def shards(settings: Settings) -> Sequence[Shard]:
    """One for fifty kills each, and one for the campaign that nobody disturbs.

    Raises
    ------
    UsageError
        There is no such preset.
    """
    settings.require(*KILLS)
    kills = settings.draws or (_QUICK_KILLS if settings.quick else KILLS[settings.preset])
    measured = settings.preset.startswith("measured")
    undisturbed: Shard = {"kills": 0, "seed": settings.seed, "measured": measured}
    return [
        undisturbed,
        *(
            {
                "kills": min(_SHARE, kills - begin),
                "seed": f"{settings.seed} {begin}",
                "measured": measured,
                NEEDS: [undisturbed],
            }
            for begin in range(0, kills, _SHARE)
        ),
    ]


def run_shard(shard: Shard, settings: Settings) -> dict[str, Any]:
    """Disturb campaigns until there were so many kills."""
    generator, campaigns, answers = random.Random(f"{shard['seed']}"), list[Harassed](), []
    (expected,) = shard.get(RESULTS, [{"derived": None}])
    left = shard["kills"]
    while left > 0 or not campaigns:
        with tempfile.TemporaryDirectory(prefix="buran-kills-", ignore_cleanup_errors=True) as name:
            campaign = Harassed(Path(name) / "campaign", generator)
            write_campaign(campaign.folder, measured=shard["measured"])
            (harass_steps if settings.preset.endswith("steps") else harass)(campaign, left)
            answers.append(derived(campaign.layout))
        campaigns.append(campaign)
        left -= len(campaign.kills)
    is_same_expected = not shard["measured"] and expected["derived"] is not None
    return {
        "derived": answers[0],
        "campaigns": len(campaigns),
        "kills": [kill for campaign in campaigns for kill in campaign.kills],
        "starts": sum(campaign.starts for campaign in campaigns),
        "finished": sum(len(campaign.finished) for campaign in campaigns),
        "lost": sorted(path for campaign in campaigns for path in campaign.lost),
        "doubled": [path for campaign in campaigns for path in campaign.doubled],
        "stuck": [text for campaign in campaigns for text in campaign.stuck],
        "other": sum(answer != expected["derived"] for answer in answers) if is_same_expected else 0,
    }


def summarise(results: Sequence[Any], settings: Settings) -> Evaluation:
    """Count what was killed and what was lost, doubled or stuck."""
    kind = Kind.MEASURED if settings.preset.startswith("measured") else Kind.SIMULATED
    kills = [kill for result in results for kill in result["kills"]]
    campaigns = sum(result["campaigns"] for result in results)

    def figure(name: str, values: list[str], of: int) -> Figure:
        return Figure(name, len(values), samples=of, goal="0", kind=kind, note="; ".join(values[:3]))

    def of_all(key: str) -> list[str]:
        return [text for result in results for text in result[key]]

    runs = sum(result["finished"] for result in results)
    figures = [
        Figure("kills", len(kills), samples=campaigns, kind=kind, note=f"in {campaigns} campaigns"),
        Figure("calls of buran run, or of its steps", sum(result["starts"] for result in results), kind=kind),
        figure("finished builds and runs lost or changed", of_all("lost"), runs),
        figure("runs begun twice", of_all("doubled"), runs),
        figure("calls that did not go on by themselves", of_all("stuck"), campaigns),
    ]
    if kind is Kind.SIMULATED:
        other = sum(result["other"] for result in results)
        name = "campaigns with other plans, filters or models than undisturbed"
        figures.append(Figure(name, other, samples=campaigns, goal="0", kind=kind))
    places = {"rename": "a rename or link", "call": "any call on files", "checkpoint": "a checkpoint update"}
    counts = Counter((kill["killed"], kill["signal"], places[kill["at"]]) for kill in kills)
    rows = tuple((victim, name, place, number) for (victim, name, place), number in sorted(counts.items()))
    table = Table("Kills", ("of", "signal", "at", "number"), rows, "Before or after the call, as drawn.")
    return Evaluation("Kills of any part of a campaign", tuple(figures), (table,))
