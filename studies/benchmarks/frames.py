"""CPU time of a large table to Parquet and back.

``python studies/benchmarks/frames.py [--call-paths 100000] [--points 25]``
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from buran.plugins.formats.frames import read_parquet, write_parquet
from buran.profiles.experiment.table import Experiment
from buran.profiles.profile import CallTree, Region
from buran.profiles.regroup import preorder


def table(call_paths: int, points: int) -> Experiment:
    """Return random times of call paths ten deep, at most."""
    draw = np.random.default_rng(1)
    parent = np.array([-1, *(max(0, i - 1 - int(draw.integers(10))) if i % 10 else 0 for i in range(1, call_paths))])
    order = preorder(parent.astype(np.int64))
    place = np.argsort(order)
    above = np.where(parent[order] < 0, -1, place[parent[order]])
    regions = tuple(Region(f"function_{i}") for i in range(1000))
    tree = CallTree(regions, draw.integers(0, 1000, call_paths), above)
    values = draw.uniform(size=(call_paths, points, 1, 5))
    return Experiment(("p",), 2.0 ** np.arange(points)[:, None], tree, {"time": values}, {"time": "sec"})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--call-paths", type=int, default=100_000)
    parser.add_argument("--points", type=int, default=25)
    arguments = parser.parse_args()
    measured = table(arguments.call_paths, arguments.points)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        begin = time.process_time()
        write_parquet(measured, path, "mean")
        written = time.process_time()
        read = read_parquet(path)
        end = time.process_time()
        same = all(np.array_equal(measured.values[name], read.values[name]) for name in measured.metrics)
        size = path.stat().st_size / 1e6
    print(f"written in {written - begin:.1f} s, read in {end - written:.1f} s of CPU time, {size:.0f} MB, same: {same}")


if __name__ == "__main__":
    main()
