"""``buran evaluate``: what a method is worth, measured."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from buran_studies.evaluation.run import Run

WORKFLOW = Path(__file__).parents[1] / "workflow" / "evaluate.smk"
HELP = "rerun the evaluations of Buran's methods"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from buran_studies.evaluation.study import STUDIES

    parser.add_argument(
        "study",
        choices=sorted(STUDIES),
        help="how long it takes and what it asks. " + " ".join(f"{k}: {v}." for k, v in STUDIES.items()),
    )
    parser.add_argument("--quick", action="store_true", help="fewer draws, in about a minute, without Snakemake")
    parser.add_argument("--seed", type=int, default=0, help="seed of random numbers (default 0)")
    parser.add_argument("--preset", default="default", help="protocol; 'published' is that of the paper")
    parser.add_argument("--draws", type=int, help="samples per cell")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of measured data")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("evaluation"), metavar="DIR", help="folder of results"
    )
    parser.add_argument("--cores", type=int, help="of this machine to use (default all)")
    parser.add_argument("--profile", help="Snakemake profile, for clusters")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the study; what an earlier call with the same settings finished is not run again."""
    from buran.campaign.launcher import usable_cores
    from buran.cli.terminal import ProgressLine
    from buran_studies.evaluation.run import Run
    from buran_studies.evaluation.study import Settings
    from buran_studies.evaluation.text import text_of

    settings = Settings(
        study=arguments.study,
        quick=arguments.quick,
        seed=arguments.seed,
        preset=arguments.preset,
        draws=arguments.draws,
        data=None if arguments.data is None else str(arguments.data.resolve()),
    )
    evaluation = Run.create(settings, arguments.output.resolve())
    if settings.quick:
        line = ProgressLine(sys.stderr)
        evaluation.work_on_all(
            lambda done, of: line.show(f"{settings.study}: {done} of {of} shards"), arguments.cores or usable_cores()
        )
        line.close()
    else:
        _run_workflow(evaluation, arguments.cores, arguments.profile)
    found = evaluation.summarise()
    print(json.dumps(found.to_json(), indent=2) if arguments.json else text_of(found), end="")
    print(f"results: {evaluation.folder}", file=sys.stderr)
    return 0


def _run_workflow(evaluation: Run, cores: int | None, profile: str | None) -> None:
    from buran.errors import RunError
    from buran.workflow.engine.controller import run_engine

    command = [
        *(sys.executable, "-m", "snakemake", "--quiet", "rules"),
        *("--snakefile", str(WORKFLOW)),
        *("--directory", str(evaluation.folder)),
        *("--cores", "all" if cores is None else str(cores)),
        *(() if profile is None else ("--profile", profile)),
        *("--rerun-triggers", "mtime", "--keep-going"),
        *("--config", f"evaluation={evaluation.folder}"),
    ]
    log = evaluation.folder / "engine.log"
    end = run_engine(command, log)
    if end.interrupted:
        raise KeyboardInterrupt
    if end.code:
        raise RunError("some shards of the evaluation failed", where=log, hint="call it again: the others are kept")
