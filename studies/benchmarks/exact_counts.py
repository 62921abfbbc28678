"""How often formulas of counts hold at points that were not measured: programs that campaign files name.

    python studies/benchmarks/exact_counts.py measure FOLDER CAMPAIGN...
    python studies/benchmarks/exact_counts.py judge FOLDER CAMPAIGN... [--aggregates mean max] [--normal-form]

Each campaign file says how a program is built and run, its points, and with `evaluation_points` the larger ones where
its models are judged. `measure` builds the program once, with counted basic blocks, runs it once at each point, and
writes its counts to a file of FOLDER; a point that is there already is not run again, one that fails is named and left
out. `judge` models the counts at the points and prints the share of call paths that are within 0.1 % at every
evaluation point, and how many intervals of 90 % hold all of these counts. With `--normal-form` no formulas are looked
for, as if the counts had noise.
"""

from __future__ import annotations

import argparse
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np

from buran.campaign.config import Campaign
from buran.campaign.launcher import usable_cores
from buran.campaign.load import load_campaign
from buran.campaign.point import Point
from buran.errors import BuildError, BuranError, RunError
from buran.measurement.machine.machine import bring_inputs
from buran.measurement.merge_dumps import read_dumps
from buran.measurement.toolchain.runtime import find_toolchain
from buran.modeling.experiments import model_experiment
from buran.modeling.functions.terms import predict
from buran.modeling.pmnf.model import prediction_interval
from buran.modeling.pmnf.text import format_function
from buran.profiles.experiment.build import experiment_from_profiles
from buran.profiles.experiment.table import Aggregate, Experiment
from buran.profiles.profile import Profile
from overhead import cpu_time_s

METRICS = ("basic_blocks", "visits", "bytes_sent")
NEAR = 1e-3
UNKNOWN = "unknown_"
TOOLS = ("cc", "cxx", "fc", "mpicc", "mpicxx", "mpifort")


def measure(campaign: Campaign, folder: Path) -> None:
    """Build with counted blocks, and run what is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    points = [
        point
        for point in (*campaign.points, *campaign.evaluation_points)
        if not (folder / f"{name_of(campaign, point)}.pickle").exists()
    ]
    if not points:
        return
    toolchain = find_toolchain(compiler=campaign.config.compiler)
    with tempfile.TemporaryDirectory(prefix="buran-exact-counts-") as name:
        tree = Path(name) / "tree"
        shutil.copytree(Path(str(campaign.source)), tree, ignore=shutil.ignore_patterns(".git"))
        (Path(name) / "toolchain.json").write_text(toolchain.to_json())
        tools = {tool: str(Path(sys.executable).parent / f"buran-{tool}") for tool in TOOLS}
        variables = {"BURAN_MODE": "effort", "BURAN_TOOLCHAIN": str(Path(name) / "toolchain.json")}
        command = campaign.build_command(dict(campaign.build_values(points[0])), tools)
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tree,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise BuildError(
                f"{campaign.name} does not build", where=campaign.path, why=(done.stdout + done.stderr)[-3000:]
            )
        for point in points:
            try:
                profile = run(campaign, point, tree, toolchain.mpi, toolchain.mpiexec)
            except RunError as error:
                print(
                    f"{campaign.name} {name_of(campaign, point)}: {error.what}: {(error.why or '')[-300:]}", flush=True
                )
                continue
            (folder / f"{name_of(campaign, point)}.pickle").write_bytes(pickle.dumps(profile))


def run(campaign: Campaign, point: Point, tree: Path, mpi: str, mpiexec: str) -> Profile:
    """Run once, in a folder of its own."""
    argv, variables = campaign.launch(point, tree / campaign.binary, tree, mpi, mpiexec, usable_cores())
    with tempfile.TemporaryDirectory() as name:
        environment = {**os.environ, **variables, "BURAN_PROFILE_DIR": name, "OMP_NUM_THREADS": "1"}
        bring_inputs(campaign.inputs, tree, Path(name), campaign.input_texts(point))
        cpu_time_s(argv, environment, Path(name))
        return read_dumps(Path(name), campaign.ranks(point))


def name_of(campaign: Campaign, point: Point) -> str:
    """Return the name of a point's file."""
    return f"{campaign.name}-" + "-".join(f"{name}{point[name]}" for name in campaign.parameters)


def counts_of(campaign: Campaign, folder: Path) -> Experiment:
    """Read what was measured at all points."""
    runs = []
    for point in (*campaign.points, *campaign.evaluation_points):
        path = folder / f"{name_of(campaign, point)}.pickle"
        if path.exists():
            values = {name: float(point[name]) for name in campaign.parameters}
            runs.append((values, 0, pickle.loads(path.read_bytes())))
    return experiment_from_profiles(runs)


def judge(campaign: Campaign, folder: Path, aggregate: Aggregate, details: bool, normal_form: bool) -> None:
    """Print a line for each metric."""
    table = counts_of(campaign, folder)
    judged = {tuple(float(point[name]) for name in campaign.parameters) for point in campaign.evaluation_points}
    at = np.array([tuple(row) in judged for row in table.points.tolist()])
    seen = Experiment(
        table.parameters,
        table.points[~at],
        table.tree,
        {metric: table.values[metric][:, ~at] for metric in METRICS if metric in table.values},
        table.units,
    )
    if normal_form:  # a metric of another name, measured once, may have noise
        seen = replace(seen, values={f"{UNKNOWN}{metric}": values for metric, values in seen.values.items()})
    for name, models in model_experiment(seen, aggregate=aggregate, derived=campaign.derived).items():
        metric = name.removeprefix(UNKNOWN)
        values = table.over_locations(metric, aggregate)[:, :, 0]
        rows = np.flatnonzero((values[:, ~at] != 0).any(axis=1))
        chosen = [models.models[row] for row in rows.tolist()]
        truth = values[np.ix_(rows, at)]
        predicted = predict([None if model is None else model.function for model in chosen], table.points[at])
        miss = np.abs(predicted - truth) / np.maximum(np.abs(truth), 1.0)
        lower, upper = prediction_interval(chosen, table.points[at])
        slack = NEAR * np.maximum(np.abs(truth), 1.0)
        holds = ((lower - slack <= truth) & (truth <= upper + slack)).all(axis=1)
        near = (miss <= NEAR).all(axis=1)
        formula = np.array([model is not None and model.quality.error == 0 for model in chosen])
        of_rest = f"{100 * holds[~near].mean():.0f} %" if (~near).any() else ""
        print(
            f"| {campaign.name} | {aggregate} | {name} | {len(rows)} | {100 * near.mean():.0f} % | {formula.sum()} | "
            f"{(near & formula).sum()} | {100 * holds.mean():.0f} % | {of_rest} |"
        )
        for place in np.flatnonzero(~near).tolist() if details else ():
            model = chosen[place]
            text = "" if model is None else format_function(model.function, table.parameters)
            print(f"    {table.tree.names[rows[place]]}: {text}; misses {miss[place].round(4).tolist()}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what was asked; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("verb", choices=("measure", "judge"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("campaigns", type=Path, nargs="+", metavar="CAMPAIGN")
    parser.add_argument("--aggregates", nargs="+", choices=get_args(Aggregate), default=["mean"])
    parser.add_argument("--details", action="store_true", help="also show the formulas that miss")
    parser.add_argument("--normal-form", action="store_true", help="without formulas of exact values")
    options = parser.parse_args(arguments)
    for path in options.campaigns:
        try:
            campaign = load_campaign(path)
            if options.verb == "measure":
                measure(campaign, options.folder)
            else:
                for aggregate in options.aggregates:
                    judge(campaign, options.folder, aggregate, options.details, options.normal_form)
        except BuranError as error:
            print(error, file=sys.stderr)
            return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
