"""Campaigns that measure too little to say much come to their end, with a report."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from buran.files import not_synced
from buran.reporting.text import render
from buran.workflow.history import History
from buran.workflow.report import gather
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import PROGRAM, opened

AXES = {"p": {"role": "ranks", "values": [2, 4, 8]}, "n": {"role": "size", "values": [10, 14, 20]}}


def without_counts() -> dict[str, Any]:
    """Return the program with all counts of blocks and bytes zero."""
    program = copy.deepcopy(PROGRAM)

    def cleared(path: dict[str, Any]) -> None:
        path |= {name: 0 for name in ("basic_blocks", "bytes_sent", "bytes_received") if name in path}
        for called in path.get("calls", {}).values():
            cleared(called)

    cleared(program["program"]["main"])
    return program


def in_parts() -> dict[str, Any]:
    """Return the program with a call path that is missing at some points, and one that appears at one alone."""
    program = copy.deepcopy(PROGRAM)
    calls = program["program"]["main"]["calls"]
    for name, visits in (("sometimes", "1 if n > 12 else 0"), ("once", "1 if n == 20 and p == 8 else 0")):
        calls[name] = {"time_s": f"0.01 * n * ({visits})", "visits": visits, "basic_blocks": f"100 * n * ({visits})"}
    return program


@pytest.mark.parametrize("strategy", ["full", "design"])
@pytest.mark.parametrize("kind", ["two points", "no counts", "in parts"])
def test_a_campaign_with_poor_data_comes_to_its_end(tmp_path: Path, strategy: str, kind: str) -> None:
    program = {"no counts": without_counts, "in parts": in_parts}.get(kind, lambda: None)()
    axes: dict[str, Any] = {"parameters": AXES}
    if kind == "two points":
        axes = {"points": [{"p": 2, "n": 10}, {"p": 4, "n": 20}]}
        axes["parameters"] = {"p": {"role": "ranks"}, "n": {"role": "size"}}
    target = {"n": 80, "p": 16}
    with not_synced():
        session = opened(
            tmp_path, program, **axes, strategy={"name": strategy}, target=target, refinement={"enabled": False}
        )
        assert carry_out(session).done
    report = gather(History.open(session))
    assert report.models["time"].models and "nan" not in render(report).lower().split()
