"""``buran suggest``: what to measure next."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from buran.campaign.strategies import BUILT_IN
from buran.cli.arguments import add_loudness, named_numbers
from buran.cli.terminal import is_quiet, table
from buran.errors import Exit, UsageError
from buran.files import finite_or_none
from buran.wording import named

if TYPE_CHECKING:
    from buran.planning.advise import Recommendation

HELP = "suggest which points to measure next, from measurements in any format"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("input", metavar="DATA", type=Path, help="measurements in any format `buran convert` reads")
    parser.add_argument(
        "--values",
        metavar="P=V,...",
        action="append",
        default=[],
        help="of a parameter; candidates are all combinations (repeatable; default: the measured ones)",
    )
    parser.add_argument(
        "--strategy",
        metavar="NAME",
        default="design",
        help=f"{', '.join(BUILT_IN)}, or one from another package (default: design)",
    )
    parser.add_argument(
        "--budget",
        metavar="B",
        help="in total, including DATA: 10%% of the full matrix, or core hours such as 2.5",
    )
    parser.add_argument("--processes", metavar="P", help="parameter that is the number of processes, one core each")
    parser.add_argument("--at", metavar="P=V,...", help="point of interest (default: largest values)")
    parser.add_argument(
        "-n", "--number", metavar="N", type=int, help="most suggestions (default: the strategy's choice)"
    )
    parser.add_argument(
        "--metric",
        metavar="M",
        action="append",
        help="metric to choose by, in seconds (repeatable; default: the first)",
    )
    parser.add_argument(
        "--exclude", metavar="P=V,...", action="append", default=[], help="point never to suggest, such as a failed one"
    )
    parser.add_argument("--seed", type=int, default=0, help="of random strategies (default 0)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_loudness(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the suggestions."""
    import numpy as np

    from buran.planning.advise import advise, candidate_space, core_counts
    from buran.planning.observations import Observations
    from buran.planning.protocol import PlanningState
    from buran.planning.strategies import base_of, strategy_of
    from buran.profiles.experiment.read import read_experiment

    if arguments.number is not None and arguments.number < 1:
        raise UsageError("at least one suggestion is wanted", where=f"-n {arguments.number}")
    strategy = strategy_of(arguments.strategy, base=base_of(arguments.strategy))
    experiment = read_experiment(arguments.input)
    names = experiment.parameters
    metrics = arguments.metric or [experiment.metrics[0]]
    measured = Observations.of(experiment, metrics)
    at = named_numbers(arguments.at, "p=1024,n=6000", names=names) if arguments.at else None
    values = dict(map(_candidates, arguments.values))
    space = candidate_space(experiment.points, names, arguments.processes, at, values)
    inside = space.indices(measured.points)
    cores = core_counts(measured.points, names, arguments.processes)
    cores[inside >= 0] = space.cores[inside[inside >= 0]]
    failed = [
        list(named_numbers(text, "p=1024,n=6000", "--exclude", names=names).values()) for text in arguments.exclude
    ]
    excluded = space.indices(np.array(failed).reshape(-1, len(names)))
    banned = frozenset(excluded[excluded >= 0].tolist())
    state = PlanningState(measured, space, seed=arguments.seed, failed=banned, most=arguments.number)
    report = advise(state, cores, strategy, arguments.budget)
    print(json.dumps(_plain(report), indent=2) if arguments.json else _text(report, strategy.abilities.gain))
    return int(Exit.BUDGET_REACHED if report.advice.stop and report.advice.budget_reached else Exit.DONE)


def _candidates(text: str) -> tuple[str, list[float]]:
    """Read ``p=64,128,256``."""
    name, _, rest = text.partition("=")
    try:
        return name.strip(), [float(value) for value in rest.split(",")]
    except ValueError as error:
        raise UsageError(f"--values {text} is no list", why=str(error), hint="write it as p=64,128,256") from None


def _plain(report: Recommendation) -> dict[str, Any]:
    advice, state, space = report.advice, report.state, report.state.space
    noise = state.measured.noise_percent
    return {
        "suggestions": [
            {
                "point": dict(zip(space.parameters, space.points[suggestion.index].tolist(), strict=True)),
                **{key: getattr(suggestion, key) for key in ("repetition", "cost_core_hours", "score", "reason")},
            }
            for suggestion in advice.suggestions
        ],
        "stop": advice.stop,
        "budget_core_hours": state.budget,
        "spent_core_hours": state.spent,
        "full_matrix_core_hours": report.full_core_hours,
        "noise_percent": finite_or_none(noise),
        "expected_error": advice.expected_error,
        "target": dict(zip(space.parameters, space.target.tolist(), strict=True)),
        "notes": list(report.notes),
    }


def _text(report: Recommendation, gain: str) -> str:
    advice, state, space = report.advice, report.state, report.state.space
    lines = []
    limit = "" if state.budget is None else f" of {state.budget:.4g}"
    full = "" if report.full_core_hours is None else f"; the full matrix: {report.full_core_hours:.4g}"
    lines.append(f"core hours: {state.spent:.4g}{limit} spent{full}")
    if not math.isnan(state.measured.noise_percent):
        lines.append(f"noise: {state.measured.noise_percent:.2g} %")
    if advice.expected_error is not None:
        target = named(dict(zip(space.parameters, space.target.tolist(), strict=True)))
        lines.append(f"expected error of the prediction at {target}: {100 * advice.expected_error:.2g} %")
    lines += [f"note: {note}" for note in report.notes if not is_quiet()]
    if advice.stop is not None:
        return "\n".join([*lines, f"nothing to measure: {advice.stop}"])
    rows = [
        (
            space.spelled(suggestion.index),
            suggestion.repetition,
            "unknown" if suggestion.cost_core_hours is None else f"{suggestion.cost_core_hours:.3g}",
            "" if not suggestion.score else f"{100 * suggestion.score:.2g} %" if gain else f"{suggestion.score:.3g}",
            suggestion.reason,
        )
        for suggestion in advice.suggestions
    ]
    header = ("point", "repetition", "core hours", gain or "score", "why")
    return "\n".join([*lines, "", table(header, rows, right=(1, 2, 3))])
