"""What a finished campaign leaves, as far as a crate takes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BUILD = {
    "schema": 1, "status": "measured", "wall_s": 4.0, "command": "make", "backend": "embedded-1", "flags": "-O2",
    "spec": {"target": "t", "mode": "time", "filter_text": "", "values": [], "hooks": None, "hash": "b1"},
    "source": {"identity": "s1", "revision": None, "commit": None},
    "toolchain": {"kind": "clang-plugin", "compiler": "clang 16", "mpi": "openmpi 4.1.4"},
    "environment": {}, "tools": {"buran": "0.2.0", "python": "3.11.7"}, "binary": "store/b1/tree/sums",
}  # fmt: skip
NODE = {"kernel": "6.1", "libc": "glibc 2.36", "machine": "x86_64", "lscpu": {"Model name": "AMD EPYC", "CPU(s)": "2"}}


def results_of(folder: Path, node: dict[str, Any] = NODE, further: str = "", **build: Any) -> Path:
    """Write what a finished campaign leaves, as far as a crate takes it."""
    store, report = folder / "store", folder / "reports" / "r1"
    for path in (
        store / "b1" / "build",
        store / "b1" / "tree",
        store / "b1" / "n=1" / "rep-01",
        store / "nodes",
        report,
    ):
        path.mkdir(parents=True)
    (store / "b1" / "build" / "run.json").write_text(json.dumps(BUILD | build))
    (store / "nodes" / "1.json").write_text(json.dumps(node))
    (store / "b1" / "n=1" / "rep-01" / "profile.cubex").write_bytes(b"profile")
    for name in ("sums.c", "sums.o", "sums"):
        (store / "b1" / "tree" / name).write_text(name)
    (report / "report.json").write_text("{}")
    (report / "campaign.yaml").write_text(
        "name: sums\n# why\nresults: ../elsewhere\n"
        "program: {source: ../sources, build: 'make CC={mpicc}', binary: sums, run: '{binary} {n}'}\n"
        "resources: {ranks: 1, time_limit: 60}\nparameters: {n: {role: size, values: [1, 2, 4, 8, 16]}}\n" + further
    )
    (folder / "latest").symlink_to(report)
    return folder
