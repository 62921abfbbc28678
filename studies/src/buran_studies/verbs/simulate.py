"""``buran simulate``: what a campaign would bring for its budget, on a program with known ground truth."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from buran.cli.arguments import add_campaign_file, add_loudness
from buran.cli.terminal import duration, table
from buran.errors import Exit, UsageError

if TYPE_CHECKING:
    from buran.workflow.session import Session

HELP = "run a campaign on a simulated program: what would the budget buy?"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_campaign_file(parser, "; its target is not built")
    parser.add_argument("--program", type=Path, help="description of the program, or truth.json of a generated one")
    parser.add_argument("--budget", type=float, metavar="CORE_HOURS", help="instead of the campaign's")
    parser.add_argument("--seed", type=int, help="instead of the campaign's")
    parser.add_argument("--folder", type=Path, help="folder for everything; continues what is there")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_loudness(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the twin through the workflow and print what it found."""
    from buran.cli.run import drive
    from buran.workflow.session import open_session
    from buran_studies.simulate.twin import write_twin

    if arguments.budget is not None and not 0 < arguments.budget < float("inf"):
        raise UsageError("the budget is a number of core hours above 0", why=f"it is {arguments.budget:g}")
    with contextlib.ExitStack() as stack:
        folder = arguments.folder
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="buran-simulate-")))
        twin = write_twin(
            arguments.file, folder, program=arguments.program, budget_core_hours=arguments.budget, seed=arguments.seed
        )
        session = open_session(twin)
        with contextlib.redirect_stdout(sys.stderr):
            code = drive(session, extra=[])
        if code in (Exit.DONE, Exit.SOME_RUNS_FAILED, Exit.BUDGET_REACHED):
            _show(session, as_json=arguments.json)
        return code


def _show(session: Session, *, as_json: bool) -> None:
    from buran.cli.status import account_rows
    from buran.workflow.history import History
    from buran.workflow.views.summary import summarize
    from buran_studies.simulate.twin import measured_points, models_and_truth, waited_s

    history = History.open(session)
    state, plans = summarize(history), history.plans
    models, (running_s, waiting_s) = models_and_truth(history), waited_s(history)
    target = ", ".join(f"{name}={value:g}" for name, value in session.campaign.target.items())
    if as_json:
        out = {
            "reason": state.reason,
            "spent_core_hours": state.spent_core_hours,
            "budget_core_hours": state.budget_core_hours,
            "account": [asdict(item) for item in state.account],
            "target": dict(session.campaign.target),
            "models": [asdict(model) for model in models],
            "points": measured_points(plans),
            "running_s": running_s,
            "waiting_s": waiting_s,
        }
        print(json.dumps(out, indent=2))
        return
    print(
        f"simulated: {measured_points(plans)} of {len(session.campaign.points)} points in {len(plans) - 1} iterations"
    )
    for plan in plans:
        print(f"  {plan.iteration}: {plan.reason}")
    print(table(("spent on", "runs", "core hours"), account_rows(state.account), right=(1, 2)))
    print(
        f"{duration(running_s)} of run time; {duration(waiting_s)} in the queue, the jobs of an iteration side by side"
    )
    if not models:
        print("no models of time")
        return
    rows = [
        (
            f"{100 * model.share:.1f} %",
            model.call_path,
            f"{model.predicted_s:.4g}",
            f"{model.true_s:.4g}",
            "unknown" if model.expected_error is None else f"{100 * model.expected_error:.1f} %",
            f"{100 * model.error:+.1f} %",
        )
        for model in models
    ]
    print(f"models of time at {target}, exclusive, seconds per rank, call paths above 1 %")
    header = ("share", "call path", "predicted", "true", "expected error", "true error")
    print(table(header, rows, right=(0, 2, 3, 4, 5)))
