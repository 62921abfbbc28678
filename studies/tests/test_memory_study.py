"""The study of counted requirements: what it asks, what it reads, and figures that follow from what was found."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from buran.errors import FormatError, UsageError
from buran.plugins.memory.reuse import BINS, LEAST_DISTANCE
from buran.profiles.profile import CallTree, Location, Profile, Region
from buran_studies.evaluation.study import NEEDS, Settings
from buran_studies.memory import caches, extrapolation, program, study, times
from buran_studies.memory.cachegrind import References, read_cachegrind
from buran_studies.memory.kernels import KERNELS, theory

QUICK = Settings("memory", quick=True)
CACHEGRIND = """desc: I1 cache: 32768 B, 64 B, 8-way associative
cmd: ./demo 3
events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw
fl=/tmp/demo.c
fn=solve(int, double*)
12 10 0 0 4 1 1 2 0 0
13 5 0 0 6
fn=main
20 3 1 1 1 0 0 1 0 0
fl=/tmp/other.c
fn=solve(int, double*)
7 1 0 0 1 0 0 1 0 0
summary: 19 1 1 12 1 1 4 0 0
"""


def test_the_quick_study_asks_the_same_of_smaller_programs() -> None:
    quick, full = (study.shards(Settings("memory", quick=quick)) for quick in (True, False))
    predicted = [[shard for shard in shards if "extrapolated" in shard] for shards in (quick, full)]
    assert 0 < len(predicted[0]) < len(predicted[1]) and all(shard in predicted[1] for shard in predicted[0])
    few_of, many_of = ([shard for shard in shards if "extrapolated" not in shard] for shards in (quick, full))
    with_gcc = [shard for shard in many_of if "program" in shard and shard["compiler"] == "gcc"]
    assert [shard["program"] for shard in with_gcc] == [shard["program"] for shard in few_of if "program" in shard]
    for few, many in zip(few_of, [shard for shard in many_of if shard not in with_gcc], strict=True):
        sizes = "sizes" if "sizes" in few else "arguments"
        assert set(few[sizes]) < set(many[sizes])
        assert {**few, sizes: 0} == {**many, sizes: 0}
    assert {shard["example"] for shard in quick if "example" in shard} == set(KERNELS)
    here = [program for program in caches.RUNS if caches.source_of(program).is_dir()]
    assert len(here) >= 4 and [shard["program"] for shard in quick if "program" in shard] == here


def test_formulas_are_numbers_of_a_visit() -> None:
    sweep = theory("sweep", {"n": 4, "p": 1, "blocks": 2, "iterations": 9})
    assert sweep["sweep_block"] == (448, 324, 256, 2592, 2048)
    assert sweep["scatter"] == (256, 256, 128, 2048, 1024)


def test_references_are_added_up_by_function() -> None:
    assert read_cachegrind(CACHEGRIND) == {
        "solve": References(11, 3, (1, 1), 16),
        "main": References(1, 1, (0, 0), 3),
    }


@pytest.mark.parametrize("text", ["", "events: Ir\nfn=main\n1 2\n", "fn=main\n1 2 3\n"])
def test_what_has_no_references_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="no reads and writes"):
        read_cachegrind(text)


def test_figures_follow_from_what_was_found() -> None:
    good = {"kernel": "solve", "n": 8, "counted": [1, 8, 2, 64, 16], "theory": [1, 8, 2, 64, 16], "valgrind": [9, 2]}
    good |= {"counted_kinds": [1, 0], "kinds": (1, 0), "operations": 13.0, "instructions": 20}
    bad = {"kernel": "pack", "n": 8, "counted": [0, 8, 2, 64, 16], "theory": [0, 9, 2, 72, 16], "valgrind": [6, 2]}
    bad |= {"counted_kinds": [0, 1], "kinds": (0, 0), "operations": 13.0, "instructions": 20}
    found = study.summarise([{"example": "stencil", "compiler": "gcc", "kernels": [good, bad]}], QUICK)
    assert [figure.value for figure in found.figures] == pytest.approx([80, 75, -20])
    assert [figure.note for figure in found.figures] == ["pack", "pack", "pack"]
    assert found.tables[0].rows[0] == ("stencil", "gcc", "solve", 8, 1, 8, 9, 2, 2, 13, 20)
    public = {"example": "HPCG", "compiler": "gcc", "kernels": [{**good, "theory": [], "kinds": ()}]}
    assert [figure.name[:18] for figure in study.summarise([public], QUICK).figures] == ["references of HPCG"]


@pytest.mark.thorough
@pytest.mark.mpi
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.parametrize("example", KERNELS)
def test_an_example_asks_for_what_its_source_says_and_valgrind_sees(example: str) -> None:
    shards = [shard for shard in study.shards(QUICK) if shard.get("example") == example]
    for found in (study.run_shard(shard, QUICK) for shard in shards):
        for kernel in found["kernels"]:
            assert kernel["counted"] == kernel["theory"]
            assert (*kernel["counted_kinds"],) == kernel["kinds"]
            # What does not fit into registers is spilled: more references, never fewer.
            assert sum(kernel["valgrind"]) >= kernel["counted"][1] + kernel["counted"][2]


def test_misses_are_judged_where_a_kernel_matters() -> None:
    few = {"kernel": "pack", "references": 1000, "sampled": [9.0, 0.0], "in sets": [9.0], "simulated": [0, 10]}
    many = {
        "kernel": "solve",
        "references": 1000,
        "sampled": [120.0, 60.0],
        "in sets": [103.0],
        "simulated": [100, 50],
    }
    assert [caches.beyond(few, level) for level in (0, 1)] == [0, 0]  # less than a hundredth of the references
    assert [caches.beyond(many, level) for level in (0, 1)] == pytest.approx([0.2, 0])
    result = {
        "program": "sweep",
        "compiler": "gcc",
        "kernels": [{"arguments": "8", **few}, {"arguments": "8", **many}],
        "ratios": [1.2, 2],
    }
    figures, table = caches.summarise([result])
    assert [figure.value for figure in figures[:3]] == [50, 100, 100]  # any lines, and as corrected; of level 2
    assert [(figure.value, figure.note) for figure in figures[3:]] == [
        (pytest.approx(20), "solve"),
        (0, "pack"),
        (pytest.approx(1.6), "1.20 to 2.00"),
    ]
    assert len(table.rows) == 2


def test_kernels_are_those_with_hooks_and_enough_references() -> None:
    regions = tuple(Region(name) for name in ("run", "main", "solve(int)", "rare"))
    tree = CallTree(regions, np.arange(4), np.array([-1, 0, 1, 1]))
    values = {"reuse_bin_161": np.array([[0], [0], [64], [64]], dtype=np.uint64)}
    profile = Profile(tree, (Location(0),), {}, values, {})
    references = {"solve": References(80, 10, (60, 50)), "rare": References(1, 0), "memset": References(20, 0, (9, 9))}
    assert caches.judged(profile, references) == [
        {
            "kernel": "solve",
            "references": 90,
            "sampled": [64.0, 64.0],
            "in sets": [64.0],
            "simulated": [60, 50],
        }
    ]


def test_larger_sizes_are_predicted_and_judged_without_modes() -> None:
    sizes = np.array([8.0, 10, 12, 14, 16, 20, 24, 32, 40, 48, 64])
    accesses = np.zeros((2, len(sizes), BINS))
    for column, n in enumerate(sizes):
        accesses[0, column, 5] = 9 * n**3
        accesses[0, column, int(np.searchsorted(LEAST_DISTANCE, 2 * n**3)) - 1] = n**3
        accesses[1, column, 5] = n  # too few to be judged
    rows = extrapolation.compared(["solve", "rare"], accesses, sizes, 5, np.ones(len(sizes)))
    assert {row["kernel"] for row in rows} == {"solve"}
    level_2 = next(row for row in rows if row["kib"] == 1024)
    assert level_2["sampled 4"] == pytest.approx(0.1)
    assert level_2["predicted 4"] == pytest.approx(0.1, rel=0.05)
    assert level_2["cliff"] == pytest.approx(20, rel=0.1) and level_2["predicted cliff"] == pytest.approx(20, rel=0.1)
    figures, (far, cliffs) = extrapolation.summarise([{"extrapolated": "solver", "rows": rows}])
    assert [figure.value for figure in figures] == [100, 100, 100]
    assert len(far.rows) == len([row for row in rows if "sampled 4" in row or "sampled 2" in row])
    assert len(cliffs.rows) == figures[2].samples


def test_a_cliff_that_is_not_predicted_counts_as_wrong() -> None:
    row = {"kernel": "solve", "kib": 32, "cliff": 20.0, "predicted cliff": None, "sampled 2": 0.3, "predicted 2": 0.2}
    figures, _ = extrapolation.summarise([{"extrapolated": "solver", "rows": [row]}])
    assert [(figure.value, figure.note) for figure in figures] == [
        (0, "median 33 % off, 0 in intervals of 90 %"),
        (None, "none to judge"),
        (0, "1 not predicted"),
    ]
    assert extrapolation.off(0.001, 0.009) == 0 and extrapolation.off(0.0, 0.03) == pytest.approx(2)
    assert extrapolation.passed(np.array([8.0, 16.0]), np.array([0.0, 1.0]), 0.5) == pytest.approx(8 * 2**0.5)


def test_times_are_judged_with_and_without_misses() -> None:
    found = {
        "name": "demo", "ranks": 1, "sizes": [32.0, 48.0], "predicted": [1.0, 1.0], "measured": [1.0, 4.0],
        "with": {"middle": [1.1, 4.4], "ends": [[0.9, 3.0], [1.5, 6.0]]},
        "without": {"middle": [0.5, 1.0], "ends": [[0.4, 0.9], [0.6, 1.1]]},
        "functions": [
            {"function": "fill", "faults": 0.5, "measured": 1.0, "with": 0.25, "without": 0.2, "pages": 0.9},
        ],
    }  # fmt: skip
    evaluation = times.summarise([found])
    assert [round(figure.value or 0) for figure in evaluation.figures] == [10, 62, 10, 75]
    assert [figure.note[:6] for figure in evaluation.figures[:2]] == ["2 of 2", "0 of 2"]
    first, second = evaluation.tables
    assert first.rows[0][2:] == ("1000", "1100 [900, 1500]", "500 [400, 600]")
    assert second.rows == (("demo, 1 rank", 48, "fill", "500", "1000", "900", "250"),)


def test_times_of_two_ranks_are_judged_from_runs_with_one() -> None:
    found = {
        "name": "demo", "ranks": 1, "sizes": [48.0, 48.0], "predicted": [1.0, 2.0], "measured": [2.0, 3.0],
        "with": {"middle": [2.0, 2.4], "ends": [[1.0, 2.0], [3.0, 2.8]]},
        "without": {"middle": [2.0, 2.0], "ends": [[1.0, 1.0], [3.0, 3.0]]}, "functions": [],
    }  # fmt: skip
    evaluation = times.summarise([found])
    values = {figure.name.split(":")[0].split(" beyond")[0]: figure for figure in evaluation.figures}
    assert values["computation of demo, 2 ranks from runs with one"].value == pytest.approx(50)
    assert values["computation of demo, 2 ranks from runs with one"].note == "predicted 20 %"
    assert [row[0] for row in evaluation.tables[0].rows] == ["demo, 1 rank", "demo, 2 ranks from runs with one"]
    assert [figure.value for figure in evaluation.figures[-2:]] == [None, None]  # no function has page faults


def test_the_preset_times_has_its_programs(tmp_path: Path) -> None:
    few, many = (study.shards(Settings("memory", quick=quick, preset="times")) for quick in (True, False))
    assert few[0] == many[0] == times.CALIBRATION and all(shard[NEEDS] == [few[0]] for shard in few[1:])
    assert [shard["name"] for shard in few[1:]] == ["sweep", "stencil", "treesort"]
    assert len(many) - 1 == 2 * (len(few) - 1)
    assert [shard["name"] for shard in many[1:] if shard["predicted"] == [1, 2]] == ["sweep", "stencil"]
    own_program = {"source": "s", "build": "b", "binary": "p", "arguments": "{n}", "small": [1], "large": [2]}
    (tmp_path / program.FILE).write_text(json.dumps({"schema": 1, **own_program}))
    own = study.shards(Settings("memory", quick=True, preset="times", data=str(tmp_path)))
    assert [shard["name"] for shard in own[1:]] == ["p"]
    (predicted,) = study.shards(Settings("memory", data=str(tmp_path)))
    assert predicted["extrapolated"] == "p"
    (tmp_path / times.MACHINE).write_text("{}")
    (own,) = study.shards(Settings("memory", quick=True, preset="times", data=str(tmp_path)))
    assert NEEDS not in own
    with pytest.raises(UsageError, match="no preset"):
        study.shards(Settings("memory", preset="other"))
