"""A campaign's simulated twin: the same question, asked of a description; and what its models are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from buran.campaign.document import below, read_campaign_file
from buran.campaign.load import load_campaign
from buran.campaign.plan import Mode, Plan, Purpose
from buran.errors import UsageError
from buran.files import write_text
from buran.instrumentation.filter_file import parse
from buran.workflow.history import History
from buran_studies.simulate.backend import hooked_functions
from buran_studies.simulate.run import Variant, generator
from buran_studies.simulate.system import program_of_campaign

POINTS_PER_JOB = 50  # where the campaign does not say
_SHARE = 0.01  # of the run time, that a call path needs to be judged


@dataclass(frozen=True)
class ModelAndTruth:
    """A model of a call path's time at the target, beside the truth.

    Attributes
    ----------
    call_path
        As it was measured under the last filter.
    share
        Of the true time.
    expected_error
        Half of the 90 % interval, over the prediction; None where the interval has no ends.
    error
        Prediction over truth, minus 1.
    """

    call_path: str
    share: float
    predicted_s: float
    true_s: float
    expected_error: float | None
    error: float


def write_twin(
    path: Path, folder: Path, *, program: Path | None, budget_core_hours: float | None, seed: int | None
) -> Path:
    """Write a campaign file that asks the same of a simulated program, into a folder; return it.

    Raises
    ------
    UsageError
        Nobody says what program is simulated, or the folder holds another twin.
    ConfigError
        The campaign file has mistakes.
    """
    original = load_campaign(path)
    data: dict[str, Any] = dict(read_campaign_file(path).data)
    described = program.resolve() if program is not None else None
    if described is None and original.config.simulated is not None:
        described = below(original.folder, original.config.simulated)
    if described is None:
        raise UsageError(
            "it is not known how the program behaves",
            where=path,
            hint="describe it in a file and name it with --program, or in the campaign's key simulated",
        )
    data |= {"backend": "simulated", "simulated": str(described), "results": "results"}
    of_the_real_one = ("include", "environments", "environment", "program", "correct", "measurements", "history")
    for key in of_the_real_one:
        data.pop(key, None)
    if original.config.backend != "simulated":
        data.pop("compare_with", None)  # likewise
    if "compare_with" in data:
        data["compare_with"] = str(below(original.folder, data["compare_with"]))
    if budget_core_hours is not None:
        data["budget"] = {**(data.get("budget") or {}), "core_hours": float(budget_core_hours)}
    if seed is not None:
        data["seed"] = seed
    data["resources"] = {"points_per_job": POINTS_PER_JOB, **(data.get("resources") or {})}
    twin, text = folder.resolve() / "campaign.yaml", yaml.safe_dump(data, sort_keys=False)
    if twin.resolve() == path.resolve():
        raise UsageError("the campaign file itself lies in that folder", where=folder, hint="name another folder")
    write_text(twin, text)
    return twin


def models_and_truth(history: History) -> list[ModelAndTruth]:
    """Compare the last models with the truth at the target: call paths above 1 % of it."""
    campaign, plans = history.session.campaign, history.plans
    last = plans[-1].iteration - 1
    if last < 0:
        return []
    program, target = program_of_campaign(campaign), campaign.target
    ranks = campaign.ranks(target)
    at = np.array([[target[name] for name in campaign.parameters]], dtype=np.float64)
    built = Variant(program, Mode.TIME, hooked_functions(program, parse(plans[-1].filter_text)))
    truth = built.truth_s(target, ranks)
    whole = sum(truth.values())
    times = history.models(last).get("time")
    if times is None:
        return []
    predicted = times.predict(at)[:, 0]
    low, high = (end[:, 0] for end in times.predict_interval(at))
    verdicts = []
    for row, name in enumerate(times.call_paths):
        if truth.get(name, 0.0) < _SHARE * whole or not np.isfinite(predicted[row]):
            continue
        half = (high[row] - low[row]) / 2
        expected = float(half / predicted[row]) if np.isfinite(half) and predicted[row] > 0 else None
        seconds = float(predicted[row])
        error = seconds / truth[name] - 1
        verdicts.append(ModelAndTruth(name, truth[name] / whole, seconds, truth[name], expected, error))
    return sorted(verdicts, key=lambda verdict: -verdict.share)


def waited_s(history: History) -> tuple[float, float]:
    """Return how long a machine would run, and how long jobs would wait in its queue, one after the other.

    Each plan's points wait side by side, the longest wait of a plan counts; points of a plan run one after the other.
    """
    campaign, plans = history.session.campaign, history.plans
    program = program_of_campaign(campaign)
    waiting = 0.0
    for plan in plans:
        waits = [
            float(program.queue_s(bundle.point)) * generator(campaign.config.seed, "queue", bundle.id).exponential()
            for bundle in plan.bundles
        ]
        waiting += max(waits, default=0.0)
    running = sum(run.wall_s or 0.0 for outcome in history.outcomes(plans) for run in outcome.runs)
    return running, waiting


def measured_points(plans: Sequence[Plan]) -> int:
    """Return how many points the plans measure for models."""
    return len({bundle.point for plan in plans for bundle in plan.bundles if bundle.purpose is Purpose.MODEL})
