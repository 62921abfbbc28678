"""The study of counted requirements: what it asks, what it reads, and figures that follow from what was found."""

from __future__ import annotations

import shutil

import pytest

from buran.errors import FormatError
from buran_studies.evaluation.study import Settings
from buran_studies.memory import study
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
    assert [(shard["example"], shard["compiler"]) for shard in quick] == [
        (shard["example"], shard["compiler"]) for shard in full
    ]
    assert all(set(few["sizes"]) < set(many["sizes"]) for few, many in zip(quick, full, strict=True))
    assert {shard["example"] for shard in quick} == set(KERNELS)


def test_formulas_are_numbers_of_a_visit() -> None:
    sweep = theory("sweep", {"n": 4, "p": 1, "blocks": 2, "iterations": 9})
    assert sweep["sweep_block"] == (448, 324, 256, 2592, 2048)
    assert sweep["scatter"] == (256, 256, 128, 2048, 1024)


def test_references_are_added_up_by_function() -> None:
    assert study.read_cachegrind(CACHEGRIND) == {"solve": (11, 3), "main": (1, 1)}


@pytest.mark.parametrize("text", ["", "events: Ir\nfn=main\n1 2\n", "fn=main\n1 2 3\n"])
def test_what_has_no_references_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="no reads and writes"):
        study.read_cachegrind(text)


def test_figures_follow_from_what_was_found() -> None:
    good = {"kernel": "solve", "n": 8, "counted": [1, 8, 2, 64, 16], "theory": [1, 8, 2, 64, 16], "valgrind": [9, 2]}
    bad = {"kernel": "pack", "n": 8, "counted": [0, 8, 2, 64, 16], "theory": [0, 9, 2, 72, 16], "valgrind": [6, 2]}
    found = study.summarise([{"example": "stencil", "compiler": "gcc", "kernels": [good, bad]}], QUICK)
    assert [figure.value for figure in found.figures] == pytest.approx([80, -20])
    assert [figure.note for figure in found.figures] == ["pack", "pack"]
    assert found.tables[0].rows[0] == ("stencil", "gcc", "solve", 8, 1, 8, 9, 2, 2)


@pytest.mark.thorough
@pytest.mark.mpi
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.parametrize("example", KERNELS)
def test_an_example_asks_for_what_its_source_says_and_valgrind_sees(example: str) -> None:
    shards = [shard for shard in study.shards(QUICK) if shard["example"] == example]
    for found in (study.run_shard(shard, QUICK) for shard in shards):
        for kernel in found["kernels"]:
            assert kernel["counted"] == kernel["theory"]
            # What does not fit into registers is spilled: more references, never fewer.
            assert sum(kernel["valgrind"]) >= kernel["counted"][1] + kernel["counted"][2]
