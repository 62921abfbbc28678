"""CPU time of suggestions, what the modeller adds to each strategy, and real campaigns with a tenth of the budget.

    python studies/benchmarks/suggest.py [--speed] [--call-paths 1000] [--extrap-python PYTHON]
                                 [--modeller-functions 30] [--campaigns 1 2 3]

Speed: CPU time of one suggestion of `design` for one call path, after the base and two repetitions of it, in the space
of five values for each parameter; and for many call paths together. Extra-P 4.2.5's advisor took 1.2 s for two
parameters and 3.1 s for three on such spaces (median CPU time of a whole run of it on an idle machine).

Modeller: the points that each strategy chose at 5 % noise, two parameters and B = 10 %, modelled by Buran and by
Extra-P in its own Python (numpy below 2): how much comes from the choice of points, how much from the modeller.

Campaigns: config/examples/budget.yaml with different seeds, really measured; for each kernel above 1 % of the run time
the prediction at the evaluation point beside what was measured there.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import yaml

from buran.errors import Exit
from buran.modeling.pmnf.repetitions import over_repetitions
from buran.planning.base import ONCE, base_indices
from buran.planning.observations import Observations
from buran.planning.protocol import PlanningState
from buran.planning.strategies import strategy_of
from buran_studies.extrap import Task, answers_of_extrap
from buran_studies.functions import beyond, draw, grid, kind_inside
from buran_studies.noise import inject
from buran_studies.selection.play import full_matrix_core_hours, modelled, play, space_of
from buran_studies.selection.study import round_of

ROOT = Path(__file__).parents[2]
SEED = 77
ADVISOR_S = {2: 1.2, 3: 3.1}


def speed(parameters: int, call_paths: int) -> float:
    """Return the CPU seconds of one suggestion, models included."""
    random = np.random.default_rng([SEED, parameters])
    space = space_of(grid(parameters), beyond(parameters))
    truth = np.stack(
        [draw(parameters, random, kind_inside(parameters, k)).evaluate(space.points) for k in range(call_paths)]
    )
    at = base_indices(space)
    runs = inject(truth[:, at], 5, repetitions=2, seed=SEED)
    program = runs.sum(axis=0) if call_paths > 1 else None
    budget = 0.3 * full_matrix_core_hours(space, truth.sum(axis=0))
    took = []
    for _ in range(5 if call_paths == 1 else 1):
        measured = Observations(space.points[at], runs, program)
        begin = time.process_time()
        advice = strategy_of("design", base=ONCE).suggest(PlanningState(measured, space, budget))
        took.append(time.process_time() - begin)
        assert advice.suggestions
    return median(took)


def modellers(python: str, functions: int) -> None:
    """Print the shares within 5 % of both modellers on the same points."""
    space, target = space_of(grid(2), beyond(2)), beyond(2)
    print(f"{functions} functions, m = 2, 5 % noise, B = 10 %: within 5 %, by Buran's modeller / by Extra-P's")
    for name in ("design", "cpf", "gpr", "random"):
        tasks, own, true = [], [], []
        for number in range(functions):
            function = draw(2, np.random.default_rng([SEED, 2, number]), kind_inside(2, number))
            truth = function.evaluate(space.points)
            runs = inject(truth, 5, repetitions=10, seed=SEED + number)
            most = round_of(name)
            strategy = strategy_of(name, base=ONCE)
            budget = 0.1 * full_matrix_core_hours(space, truth)
            _, measured = play(strategy, space, runs[None], runs, budget, seed=number, most=most)
            own.append(float(modelled(measured).predict(target[None])[0, 0]))
            true.append(float(function.evaluate(target)))
            tasks.append(Task(measured.points, measured.values[:1], target))
        theirs = np.array([answer.predicted[0] for answer in answers_of_extrap(python, tasks)])
        shares = [100 * float(np.mean(np.abs(each / np.array(true) - 1) <= 0.05)) for each in (np.array(own), theirs)]
        print(f"  {name:10} {shares[0]:5.1f} / {shares[1]:5.1f} %", flush=True)


def campaign(seed: int, folder: Path, metrics: list[str]) -> None:
    """Run the example campaign with a seed and print predictions beside measurements."""
    from buran.campaign.plan import Mode, Purpose
    from buran.modeling.pmnf import read_models
    from buran.workflow import collect
    from buran.workflow.history import History
    from buran.workflow.session import open_session

    data = yaml.safe_load((ROOT / "config" / "examples" / "budget.yaml").read_text())
    data |= {"seed": seed, "results": "results"} | ({"metrics": metrics} if metrics else {})
    data["program"]["source"] = "source"
    shutil.copytree(ROOT / "examples" / "stencil", folder / "source")
    file = folder / "campaign.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    environment = {**os.environ, "BURAN_LOCK_FOLDER": str(folder / "lock")}
    command = [sys.executable, "-m", "buran.cli", "run", str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    print(f"seed {seed}: buran run ended with {done.returncode}")
    if done.returncode not in (0, int(Exit.BUDGET_REACHED)):
        print(done.stdout + done.stderr)
        return
    session = open_session(file)
    history = History.open(session)
    plans, runs = history.plans, history.runs
    held = [run for run in runs if run.purpose is Purpose.EVALUATION]
    timed = collect.experiment_of([run for run in held if run.mode is Mode.TIME], session.campaign.parameters)
    modelled = [run for run in runs if run.purpose is Purpose.MODEL]
    hours = sum(run.wall_s for run in modelled) / 3600
    points, of = len({run.point for run in modelled}), len(session.campaign.points)
    print(f"  {len(modelled)} runs at {points} of {of} points, {hours:.4g} core hours")
    print("  " + "; ".join(plan.reason for plan in plans))
    report = (session.layout.latest / "report.txt").read_text()
    print("\n".join(f"  {line}" for line in report.splitlines() if "All points would" in line))
    if timed is None:
        print("  the evaluation point was not measured")
        return
    found = read_models(session.layout.models(session.id, plans[-1].iteration - 1))
    models = next(each for each in found if each.metric == "time")
    predicted = dict(zip(models.call_paths, models.predict(timed.points)[:, 0].tolist(), strict=True))
    times = timed.over_locations("time")[:, 0]
    values = over_repetitions(times, session.campaign.config.model.repetition)
    for row in np.flatnonzero(values >= 0.01 * values.sum()).tolist():
        path, value = timed.tree.names[row], float(values[row])
        own = predicted.get(path, float("nan"))
        repetitions = 100 * (times[row][np.isfinite(times[row])] / value - 1)
        scatter = f"repetitions {repetitions.min():+.1f} to {repetitions.max():+.1f} %"
        share = f"{100 * value / values.sum():4.1f} % of the time"
        error = f"{100 * (own / value - 1):+6.1f} %"
        name = path.split("->")[-1].split("(")[0]
        print(f"  {name:18} {share}, measured {value:8.4f} s, predicted {own:8.4f} s, {error}; {scatter}", flush=True)


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--call-paths", type=int, default=1000)
    parser.add_argument("--extrap-python")
    parser.add_argument("--modeller-functions", type=int, default=30)
    parser.add_argument("--campaigns", metavar="SEED", type=int, nargs="*", default=[])
    parser.add_argument("--metrics", nargs="*", default=[], help="of campaigns, instead of the example's")
    options = parser.parse_args()
    if options.speed:
        for parameters, theirs in ADVISOR_S.items():
            own = speed(parameters, 1)
            ratio = f"Extra-P's advisor {theirs} s, {theirs / own:.0f} times"
            print(f"one call path, m = {parameters}: {1000 * own:.1f} ms CPU, {ratio}")
            many = speed(parameters, options.call_paths)
            print(f"{options.call_paths} call paths, m = {parameters}: {many:.1f} s CPU", flush=True)
    if options.extrap_python:
        modellers(options.extrap_python, options.modeller_functions)
    for seed in options.campaigns:
        with tempfile.TemporaryDirectory() as folder:
            campaign(seed, Path(folder), options.metrics)
    return 0


if __name__ == "__main__":
    sys.exit(main())
