"""What bounds call paths: a machine and runs that are made up, so that the answers are known."""

from __future__ import annotations

import re
from types import SimpleNamespace

import chromium
import numpy as np
import pytest
from test_caches import table_of

from buran.campaign.launcher import Placement
from buran.modeling.fit import fit_models
from buran.modeling.pmnf.model_set import ModelSet
from buran.plugins.memory.machine_file import Level, MachineFile
from buran.plugins.memory.reuse import BIN_METRICS, LEAST_DISTANCE, LINE, NEVER
from buran.plugins.memory.roofline import roofline_of, roofline_plot, roofline_text, work_of
from buran.profiles.metrics import metric_of
from buran.profiles.profile import CallTree, Location, Profile, Region
from buran.reporting.html import render_page
from made_up import data_of, headline_about, report

MACHINE = MachineFile(
    *("node1", "a processor", "6.1", "cc", "2026-01-02T00:00:00+00:00"),
    cores=4,
    levels=(
        Level(2**15, 1, 1e-9, 1e-9, 1e-9, 1e-9, 64e9, 64e9),
        Level(2**23, 4, 11e-9, 11e-9, 11e-9, 11e-9, 32e9, 32e9),
        Level(None, 4, 111e-9, 111e-9, 111e-9, 111e-9, 16e9, 4e9),
    ),
    flops=1e10,
    flops_busy=1e10,
    codes={"chain": 1e-9},
    spread=0.0,
)
NAMES = ["level 2", "memory"]


@pytest.mark.parametrize(
    ("seconds", "flops", "lines", "ranks", "bound"),
    [
        (1.0, 8e9, (0, 0), 1, "floating-point operations"),
        (1.0, 1e9, (1e6, 1e6), 1, "blocks"),
        (1.0, 1e9, (3e8, 0), 1, "bandwidth of level 2"),
        (1.0, 1e9, (2e8, 2e8), 1, "bandwidth of memory"),
        (1.0, None, (7e7, 7e7), 1, "blocks or latency of memory"),
        (1.0, None, (7e7, 7e7), 4, "bandwidth of memory"),  # four ranks have a quarter each
        (1.0, 0.0, (0, 0), 1, "blocks"),
    ],
)
def test_what_takes_half_of_the_time_bounds(seconds, flops, lines, ranks, bound):
    work = work_of(seconds, flops, np.array(lines, dtype=float), MACHINE, ranks, NAMES)
    assert work.bound == bound
    assert (work.intensity is None) is (not flops or not any(lines))


def test_mpi_and_waiting_are_said_beforehand():
    assert work_of(1.0, None, np.zeros(2), MACHINE, 1, NAMES, "waiting").bound == "waiting"


VALUES = (8, 12, 16, 20, 24)


def runs(inner: bool):
    """A program that sweeps 2 n^3 lines, n^3 times, with two operations each; maybe in a function of its own."""
    regions = (Region("main"), Region("sweep"), Region("MPI_Bcast", paradigm="mpi"), Region("cell"))
    tree = CallTree(
        regions[: 4 if inner else 3], np.arange(4 if inner else 3), np.array([-1, 0, 0, 1][: 4 if inner else 3])
    )
    for n in VALUES:
        place = int(np.searchsorted(LEAST_DISTANCE[:NEVER], 2 * n**3, "right")) - 1
        name = [*BIN_METRICS][place]
        values = {name: np.zeros((len(tree), 1)), "flops": np.zeros((len(tree), 1))}
        values[name][-1 if inner else 1], values["flops"][-1 if inner else 1] = n**3, 2 * n**3
        metrics = {key: BIN_METRICS.get(key) or metric_of(key) for key in values}
        yield {"n": n}, 0, Profile(tree, (Location(0),), metrics, values, {})


def found():
    """Times under a filter without the inner function: 5 ns for each cell, of which a line of memory takes 4."""
    tree = next(runs(False))[2].tree
    times = np.array([[1e-9] * len(VALUES), [5e-9 * n**3 for n in VALUES], [1e-9 * n**3 for n in VALUES]])
    points = np.array([[float(n)] for n in VALUES])
    models = ModelSet(
        ("n",), "time", "sec", tree.names, fit_models(points, times).models, "mean", "median",
        tuple(map(tuple, points.tolist())),
    )  # fmt: skip
    campaign = SimpleNamespace(target={"n": 100}, placement=lambda point: Placement(ranks=1))
    sampled = list(runs(True))
    return roofline_of(sampled, sampled, tree, models, [], campaign, MACHINE)


def test_functions_without_hooks_belong_to_their_callers():
    roofline = found()
    assert [row.call_path for row in roofline.rows] == ["main->sweep", "main->MPI_Bcast"]
    sweep = roofline.rows[0]
    assert "latency of level 2" in sweep.now.bound and sweep.target.bound == "bandwidth of memory"
    assert sweep.target.share == pytest.approx(LINE / 16e9 / 5e-9, rel=0.05)
    assert sweep.target.intensity == pytest.approx(2 / LINE, rel=0.05)
    assert roofline.rows[1].target.bound == "MPI"


def test_the_section_of_the_report():
    roofline = found()
    text = roofline_text(roofline)
    assert re.search("bandwidth of memory, (7[6-9]|8[0-4]) %", text) and "calibrated 2026-01-02" in text
    plot = roofline_plot(roofline)
    assert [name for name, _ in plot["paths"]] == ["main->sweep"] and len(plot["roofs"]) == 2
    said = report(None, further={"roofline": roofline})
    assert 'id="roofline-plot"' in render_page(said, data_of(said, None), {}, "", headline_about(said))
    assert 'id="roofline-plot"' not in render_page(
        report(None), data_of(report(None), None), {}, "", headline_about(report(None))
    )


@pytest.mark.slow
def test_the_page_draws_both_plots(tmp_path):
    browser = chromium.started()
    if browser is None:
        pytest.skip("no chromium with its driver: apt install chromium chromium-driver")
    said = report(None, further={"roofline": found(), "caches": table_of()})
    path = tmp_path / "report.html"
    path.write_text(render_page(said, data_of(said, None), {}, "", headline_about(said)))
    try:
        browser.get(path.as_uri())
        drawn = "return document.querySelectorAll(arguments[0]).length"
        assert browser.execute_script(drawn, "#roofline-plot circle") == 2  # measured, and at the target
        assert browser.execute_script(drawn, "#cache-plot path") == 1
        assert browser.get_log("browser") == []
    finally:
        browser.quit()
