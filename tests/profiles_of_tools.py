"""Small runs in the formats of other tools, written here for tests; no tool has made them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RankTimes = Sequence[Mapping[tuple[str, ...], float]]
"""For each rank the exclusive times of call paths, in microseconds."""


def tau(folder: Path, ranks: RankTimes, metadata: Mapping[str, object] | None = None, *, flat: bool = False) -> Path:
    """Write a folder with a profile of each rank, below TAU's root."""
    folder.mkdir(parents=True)
    told = {
        "Metric Name": folder.name.removeprefix("MULTI__") if "MULTI__" in folder.name else "TIME",
        **(metadata or {}),
    }
    attributes = "".join(f"<attribute><name>{k}</name><value>{v}</value></attribute>" for k, v in told.items())
    for rank, times in enumerate(ranks):
        rows = [f'".TAU application" 1 1 0 {sum(times.values()):.0f} 0 GROUP="TAU_DEFAULT"']
        for path, own in times.items():
            inclusive = sum(value for other, value in times.items() if other[: len(path)] == path)
            name = path[-1] if flat else "  => ".join((".TAU application", *path))
            rows.append(f'"{name}" 2 0 {own} {inclusive} 0 GROUP="TAU_USER|TAU_CALLPATH"')
        head = f"{len(rows)} templated_functions_MULTI_TIME\n"
        head += f"# Name Calls Subrs Excl Incl ProfileCalls # <metadata>{attributes}</metadata>\n"
        (folder / f"profile.{rank}.0.0").write_text(head + "\n".join(rows) + "\n0 aggregates\n")
    return folder


def hpctoolkit(folder: Path, ranks: Sequence[tuple[float, float, float]]) -> Path:
    """Write a database with ``<program root>``, ``main``, a loop in it, and ``solve`` called from the loop.

    Parameters
    ----------
    ranks
        For each rank the exclusive microseconds of main's own line, of the loop's own line, and of ``solve``.
    """
    folder.mkdir(parents=True)
    names = {"<program root>": 10, "main": 11, "solve": 12}
    procedures = "".join(
        f'<Procedure i="{i}" n="{n.replace("<", "&lt;").replace(">", "&gt;")}"/>' for n, i in names.items()
    )
    place = 'lm="1" f="1"'
    profile = (
        f'<PF i="2" s="1" l="0" {place} n="10"><C i="3" s="2" l="0"><PF i="4" s="3" l="5" {place} n="11">'
        '<S i="5" s="4" l="6"/><L i="6" s="5" l="7" f="1"><S i="7" s="6" l="8"/><C i="8" s="7" l="9">'
        f'<PF i="9" s="8" l="20" {place} n="12"><S i="10" s="9" l="21"/></PF></C></L></PF></C></PF>'
    )
    (folder / "experiment.xml").write_text(
        '<?xml version="1.0"?><HPCToolkitExperiment version="2.0"><SecCallPathProfile i="0" n="a"><SecHeader>'
        '<MetricDBTable><MetricDB i="0" n="CPUTIME (usec) (I)"/>'
        '<MetricDB i="1" n="CPUTIME (usec) (E)"/></MetricDBTable>'
        '<LoadModuleTable><LoadModule i="1" n="a"/></LoadModuleTable><FileTable><File i="1" n="a.c"/></FileTable>'
        f"<ProcedureTable>{procedures}</ProcedureTable></SecHeader>"
        f"<SecCallPathProfileData>{profile}</SecCallPathProfileData></SecCallPathProfile></HPCToolkitExperiment>"
    )
    for rank, (line, loop, solve) in enumerate(ranks):
        whole = line + loop + solve
        inclusive = [0, whole, whole, whole, line, loop + solve, loop, solve, solve, solve]
        exclusive = [0, 0, 0, line + loop, line, loop, loop, 0, solve, solve]
        head = b"HPCPROF-metricdb__00.10b" + struct.pack(">ii", len(inclusive), 2)
        table = b"".join(struct.pack(">dd", *pair) for pair in zip(inclusive, exclusive, strict=True))
        (folder / f"1.a-{rank:06d}-000-a8c00270-{rank}-0.metric-db").write_bytes(head + table)
    return folder


def timemory(path: Path, ranks: Sequence[tuple[float, float]]) -> Path:
    """Write a tree with ``main`` and ``solve`` below it.

    Parameters
    ----------
    ranks
        For each rank the exclusive seconds of both.
    """

    def node(name: str, inclusive: float, exclusive: float, children: list[Any], laps: int = 1) -> dict[str, Any]:
        def entry(value: float) -> dict[str, Any]:
            # Python's JSON knows NaN, as C++ writes it.
            return {"entry": {"laps": laps, "repr_data": value}, "stats": {"sum": value, "count": laps}}

        told = {"hash": laps, "prefix": name, "tid": [0], "pid": [1], "depth": 0, "is_dummy": False}
        return {"node": {**told, "inclusive": entry(inclusive), "exclusive": entry(exclusive)}, "children": children}

    trees = []
    for main, solve in ranks:
        tree = node("main", main + solve, main, [node("solve", solve, solve, [], laps=3)])
        trees.append([node("unknown-hash=0", 0.0, 0.0, [tree], laps=0)])
    component = {
        "properties": {"value": 64, "enum": "WALL_CLOCK", "id": "wall_clock", "ids": ["wall_clock"]},
        "type": "wall", "description": "", "unit_value": 1, "unit_repr": "sec", "thread_scope_only": False,
        "mpi_size": len(ranks), "upcxx_size": 1, "thread_count": 1, "process_count": len(ranks), "mpi": trees,
    }  # fmt: skip
    path.write_text(json.dumps({"timemory": {"WALL_CLOCK": component}}))
    return path
