"""What the Gaussian process on ln(time / model) is worth: drifting prices of work, and sizes that were held out.

    python studies/benchmarks/price.py twin [--seeds 1 2 3] [--shares 0.2 0.1]
    python studies/benchmarks/price.py held CAMPAIGN.yaml=PARAMETER[=STEPS] ...

`twin` runs campaigns on a program whose cubic work has a price that drifts with its size, by laws that caches suggest
and by others: for a share of the core hours of the whole matrix with three repetitions. It prints the median error of
the two kernels at the target, for the model, for a constant price of the counted work, and for the whole matrix; and
the share of the core hours in runs that tell models no time.
`held` leaves the largest sizes of finished campaigns out, models the rest and predicts them: call paths above 1 % of
the time. Both print how often 90 % intervals hold, and their half widths.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from buran.campaign.plan import Mode
from buran.files import not_synced
from buran.modeling.pmnf.model import predict_models, prediction_interval
from buran.modeling.pmnf.model_set import read_models
from buran.modeling.priors.paths import Source
from buran.profiles.experiment.table import Experiment
from buran.workflow.collect import gather
from buran.workflow.history import History
from buran.workflow.model import path_models
from buran.workflow.session import Session, open_session
from buran_studies.simulate.in_process import carry_out

Array = NDArray[np.float64]
KERNELS = {"kernel_a": 0.6, "kernel_b": 0.3}
SMALL, LARGE = ([8, 14, 20, 26, 32], 42), ([16, 24, 32, 40, 48], 64)
_RAMP = "(1 + {rise} * min(1, max(0, (n - {first}) / {length})))"
LAWS = {
    "constant": ("1", *SMALL),
    "rise of 42 % from 18 to 26": (_RAMP.format(rise=0.42, first=18, length=8), *SMALL),
    "rise of 42 % from 28 to 38": (_RAMP.format(rise=0.42, first=28, length=10), *SMALL),
    "rise of 60 % from 28 to 46": (_RAMP.format(rise=0.6, first=28, length=18), *LARGE),
    "twice from 8 to 20": (_RAMP.format(rise=1, first=8, length=12), *SMALL),
    "rise of 50 % from 20 to 30": (_RAMP.format(rise=0.5, first=20, length=10), *SMALL),
    "power 0.15": ("(n / 32)**0.15", *SMALL),
    "power -0.1": ("(n / 32)**-0.1", *SMALL),
    "overhead that falls": ("(1 + 6 / n)", *SMALL),
}
"""Price of a unit of work, sizes of the matrix, and the size of the target."""
LONGEST_S = 3.5


def program(law: str, largest: int) -> dict[str, Any]:
    """Describe a program whose largest run takes so long."""
    whole = f"{LONGEST_S / largest**3!r} * n**3 * {law}"
    kernels = {
        name: {"time_s": f"{share} * {whole}", "visits": 300, "basic_blocks": f"300 * {4 + 4 * k} * n**3 + 300"}
        for k, (name, share) in enumerate(KERNELS.items())
    }
    exchange = {
        "time_s": "1e-5 * n**2 + 0.002", "visits": 300, "bytes_sent": "2400 * n**2", "bytes_received": "2400 * n**2",
    }  # fmt: skip
    pack = {"time_s": "2e-5 * n**2", "visits": 300, "basic_blocks": "300 * n**2", "calls": {"MPI_Sendrecv": exchange}}
    main = {"time_s": 0.01, "visits": 1, "basic_blocks": "10", "calls": {**kernels, "pack": pack}}
    noise = {"distribution": "normal", "percent": 2}
    return {"schema": "buran-program/1", "startup_s": 0.35, "noise": noise, "program": {"main": main}}


def campaign(folder: Path, name: str, sizes: list[int], seed: int, **keys: Any) -> Session:
    """Open a campaign of the program in a folder."""
    described = {
        "name": name, "results": name, "backend": "simulated", "simulated": "program.yaml", "seed": seed,
        "parameters": {"p": {"role": "ranks", "values": [1, 2]}, "n": {"role": "size", "values": sizes}},
        "repetitions": 3, "warmup": False, "effort_repetitions": 1, "resources": {"time_limit": 36000}, **keys,
    }  # fmt: skip
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(described))
    return open_session(folder / f"{name}.yaml")


def errors(session: Session, iteration: int, truth: float, target: dict[str, int]) -> list[tuple[float, ...]]:
    """Return error, error of a constant price, whether the interval holds, and its half width, for both kernels."""
    models = next(m for m in read_models(session.layout.models(session.id, iteration)) if m.metric == "time")
    at = np.array([[target[name] for name in models.parameters]], dtype=np.float64)
    low, high = (ends[:, 0] for ends in models.predict_interval(at, of="mean"))
    table = History.open(session).table(iteration)
    assert table is not None
    times = table.over_locations("time", "mean")
    size = models.parameters.index("n")
    out: list[tuple[float, ...]] = []
    for row, path in enumerate(models.call_paths):
        kernel = path.split("->")[-1]
        if kernel in KERNELS:
            mean = np.nanmean(times[table.tree.names.index(path)], axis=1)
            cost = np.log(mean[np.isfinite(mean)] / table.points[np.isfinite(mean), size] ** 3).mean()
            true = KERNELS[kernel] * truth
            plain = float(np.exp(cost)) * target["n"] ** 3
            predicted = float(models.predict(at)[row, 0])
            held = low[row] <= true <= high[row]
            width = (high[row] - low[row]) / 2 / true
            out.append((abs(predicted / true - 1), abs(plain / true - 1), float(held), float(width)))
    return out


def untimed(session: Session, iteration: int) -> float:
    """Return the share of the core hours in runs that tell models no time of a kernel.

    Of a point's runs, timed ones come first: the table has as many times as runs enter.
    """
    history = History.open(session)
    table = history.table(iteration)
    assert table is not None
    row = next(row for row, name in enumerate(table.tree.names) if name.endswith(next(iter(KERNELS))))
    number = np.isfinite(table.over_locations("time", "mean")[row]).sum(axis=1).tolist()
    left = dict(zip(map(tuple, table.points.tolist()), number, strict=True))
    order = (Mode.TIME, Mode.EFFORT, Mode.VANILLA)
    spent = entered = 0.0
    for run in sorted(history.runs, key=lambda run: order.index(run.mode)):
        key = tuple(float(run.point[name]) for name in table.parameters)
        core_s = run.wall_s * session.campaign.cores(run.point)
        spent += core_s
        if left.get(key, 0) > 0 and run.mode is not Mode.VANILLA:
            left[key] -= 1
            entered += core_s
    return 1 - entered / spent


def twin(seeds: list[int], shares: list[float]) -> None:
    """Print medians over laws and seeds."""
    found: dict[tuple[str, str], list[tuple[float, ...]]] = defaultdict(list)
    idle: dict[str, list[float]] = defaultdict(list)
    for law, (price, sizes, size) in LAWS.items():
        target = {"p": 2, "n": size}
        for seed in seeds:
            with tempfile.TemporaryDirectory(prefix="buran-price-") as name, not_synced():
                folder = Path(name)
                (folder / "program.yaml").write_text(yaml.safe_dump(program(price, sizes[-1])))
                truth = LONGEST_S / sizes[-1] ** 3 * size**3 * eval(price, {"n": size, "min": min, "max": max})
                refinement = {"target": target}
                whole = campaign(folder, "whole", sizes, seed, strategy={"name": "full"}, refinement=refinement)
                last = carry_out(whole).iteration - 1
                found[law, "whole"] += errors(whole, last, truth, target)
                timed = [run for run in History.open(whole).runs if run.mode is Mode.TIME]
                hours = sum(run.wall_s * whole.campaign.cores(run.point) for run in timed) / 3600
                for number, share in enumerate(shares):
                    keys = {"budget": {"core_hours": share * hours}, "strategy": {"name": "design"}}
                    own = campaign(folder, f"part-{number}", sizes, seed, refinement=refinement, **keys)
                    last = carry_out(own).iteration - 1
                    found[law, f"{share:g}"] += errors(own, last, truth, target)
                    idle[f"{share:g}"].append(untimed(own, last))
    print(f"{'law':28s}{'hours':>7s}{'error %':>9s}{'constant':>9s}{'held %':>8s}{'+- %':>7s}{'n':>5s}")
    for hours in dict.fromkeys(hours for _, hours in found):
        groups = {law: found[law, hours] for law in LAWS}
        groups["all"] = [row for rows in groups.values() for row in rows]
        for law, rows in groups.items():
            table = np.array(rows)
            error, plain, width = 100 * np.median(table[:, [0, 1, 3]], axis=0)
            held = 100 * table[:, 2].mean()
            print(f"{law:28s}{hours:>7s}{error:9.1f}{plain:9.1f}{held:8.0f}{width:7.0f}{len(rows):5d}")
    for hours, parts in idle.items():
        print(f"of {hours} of the hours, {100 * np.mean(parts):.1f} % in runs that tell models no time")


def without(table: Experiment, seen: NDArray[np.bool_]) -> Experiment:
    """Return some of the points."""
    return replace(table, points=table.points[seen], values={k: v[:, seen] for k, v in table.values.items()})


def held(spec: str) -> None:
    """Print how far the largest sizes of a campaign are missed by models of the others."""
    path, parameter, *steps = spec.split("=")
    session = open_session(Path(path))
    history = History.open(session)
    material = gather(history)
    timed, counted = material.timed, material.counted
    assert timed is not None and counted is not None
    column = timed.parameters.index(parameter)
    sizes = np.unique(timed.points[:, column])
    first = sizes[-int(steps[0]) if steps else -1]
    seen, known = timed.points[:, column] < first, counted.points[:, column] < first
    some = replace(material, counted=without(counted, known))
    made = path_models(history.session.campaign, some, without(timed, seen), [])
    truth, at = np.nanmean(timed.over_locations("time", "mean")[:, ~seen], axis=2), timed.points[~seen]
    large = truth >= 0.01 * np.nansum(truth, axis=0)
    models = [each.final for each in made]
    predicted, (low, high) = predict_models(models, at), prediction_interval(models, at)
    for source in (Source.COMPUTATION, Source.COMMUNICATION):
        here = large & np.array([each.source is source and each.final is not None for each in made])[:, None]
        if here.any():
            error = np.abs(predicted[here] / truth[here] - 1)
            inside = (low[here] <= truth[here]) & (truth[here] <= high[here])
            width = np.median((high - low)[here] / 2 / truth[here])
            print(
                f"{session.campaign.name} from {parameter} = {first:g}, {source}: {here.sum()} values, "
                f"median error {100 * np.median(error):.1f} %, within 10 %: {100 * np.mean(error <= 0.1):.0f} %, "
                f"held {100 * inside.mean():.0f} %, +- {100 * width:.0f} %"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    part = verbs.add_parser("twin")
    part.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    part.add_argument("--shares", type=float, nargs="+", default=[0.2, 0.1])
    verbs.add_parser("held").add_argument("campaigns", nargs="+")
    given = parser.parse_args()
    if given.verb == "twin":
        twin(given.seeds, given.shares)
    else:
        for campaign_spec in given.campaigns:
            held(campaign_spec)
