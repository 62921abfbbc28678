"""Small measurement tables with known counts and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from buran.profiles.experiment.table import AGGREGATES, Experiment
from buran.profiles.profile import CallTree, Region

POINTS = np.array(list(product((2, 4, 8, 16, 32), (10, 20, 40, 80, 160))), dtype=float)
P, N = POINTS.T


def tree_of(paths: Sequence[str]) -> CallTree:
    """Call paths in pre-order; what begins with MPI_ is MPI's, the first one is the program."""
    names = sorted({path.split("->")[-1] for path in paths})
    kinds = ["mpi" if name.startswith("MPI_") else "measurement" if name == paths[0] else "compiler" for name in names]
    regions = tuple(Region(name, paradigm=kind) for name, kind in zip(names, kinds, strict=True))  # type: ignore[arg-type]
    place = {path: row for row, path in enumerate(paths)}
    region = [names.index(path.split("->")[-1]) for path in paths]
    parent = [place["->".join(path.split("->")[:-1])] if "->" in path else -1 for path in paths]
    return CallTree(regions, np.array(region, dtype=np.int64), np.array(parent, dtype=np.int64))


def table(
    values: Mapping[str, Mapping[str, object]], points: np.ndarray = POINTS, parameters: tuple[str, ...] = ("p", "n")
) -> Experiment:
    """Values by call path and metric: an array (point,) or (point, repetition); what is left out is 0."""
    paths = list(values)
    repetitions = max(
        (
            (np.ndim(cells) == 2 and np.shape(cells)[1]) or 1
            for by_metric in values.values()
            for cells in by_metric.values()
        ),
        default=1,
    )
    metrics = sorted({metric for by_metric in values.values() for metric in by_metric})
    out = {}
    for metric in metrics:
        cube = np.zeros((len(paths), len(points), repetitions, len(AGGREGATES)))
        for row, path in enumerate(paths):
            own = np.asarray(values[path].get(metric, 0.0), dtype=float)
            own = own[:, None] if own.ndim == 1 else own
            cube[row] = np.broadcast_to(own, (len(points), repetitions))[..., None]
        out[metric] = cube
    return Experiment(parameters, points, tree_of(paths), out, dict.fromkeys(metrics, ""))
