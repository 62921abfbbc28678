"""Simulated runs: what they take, what they leave behind, and that only their key decides."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from buran.campaign.plan import Mode
from buran.errors import ConfigError, RunError
from buran.instrumentation.filter_file import format_filter, only, parse
from buran.profiles.experiment.build import experiment_from_profiles
from buran_studies.simulate.backend import hooked_functions
from buran_studies.simulate.program import Program, program_of
from buran_studies.simulate.run import MOST_LOCATIONS, Variant, generator
from simulated_campaigns import PROGRAM

POINT = {"p": 16, "n": 40}


def program(**changes: Any) -> Program:
    return program_of({**PROGRAM, **changes}, ("p", "n"), "here")


def variant(own: Program, mode: Mode = Mode.TIME, filter_text: str = "") -> Variant:
    return Variant(own, mode, hooked_functions(own, parse(filter_text)))


def quiet() -> Program:
    return program(noise={"percent": 0})


def test_without_noise_a_profile_tells_the_formulas() -> None:
    own = variant(program(noise={"percent": 0}, instrumentation={"visit_s": 0}))
    profile = own.profile(POINT, 16, "any")
    seconds = dict(zip(profile.tree.names, profile.exclusive("time").mean(axis=1), strict=True))
    # The inline function has no hooks: its time is its caller's.
    assert seconds["simulated->main->solve"] == pytest.approx(2e-7 * 40**3 + 1e-8 * 40**3)
    assert seconds["simulated->main->solve->tiny"] == pytest.approx(1e-8 * 40**3)
    assert seconds["simulated->main->solve->MPI_Allreduce"] == pytest.approx(1e-3 * 4 + 1e-3 * 4)
    assert "simulated->main->solve->hidden" not in seconds
    assert own.truth_s(POINT, 16) == pytest.approx(seconds)


def test_hooks_cost_as_much_as_they_are_visited_and_a_filter_saves_it() -> None:
    plain = variant(quiet(), Mode.VANILLA).took(POINT, 16, "k").cpu_s / 16
    wide = variant(quiet()).took(POINT, 16, "k").cpu_s / 16
    narrow = variant(quiet(), filter_text=_only("solve")).took(POINT, 16, "k").cpu_s / 16
    assert wide - plain == pytest.approx((1 + 100 + 40**3 + 1 + 100) * 2e-7)
    assert narrow - plain == pytest.approx((100 + 100) * 2e-7)


def _only(*names: str) -> str:
    return format_filter(only(names))


def test_counts_cost_by_block_and_are_the_same_in_every_run() -> None:
    own = variant(program(), Mode.EFFORT)
    one, two = (own.profile(POINT, 16, key).values for key in ("a", "b"))
    assert "basic_blocks" not in variant(program()).profile(POINT, 16, "a").values
    for name in ("visits", "basic_blocks", "bytes_sent"):
        assert (one[name] == two[name]).all()
    assert not np.array_equal(one["time"], two["time"])
    total = one["basic_blocks"].astype(float).mean(axis=1).sum()
    assert total == pytest.approx(5 * 40**3 + 1000 * 40**2)  # those of the inline function are its caller's


def test_effort_that_depends_on_the_run_does() -> None:
    data = copy.deepcopy(PROGRAM)
    data["program"]["main"]["calls"]["setup"]["unsteady_percent"] = 10
    own = variant(program_of(data, ("p", "n"), "here"), Mode.EFFORT)
    one, two = (own.profile(POINT, 16, key).values["basic_blocks"] for key in ("a", "b"))
    assert not np.array_equal(one, two)


@settings(max_examples=20)
@given(st.permutations(["a", "b", "c", "d"]))
def test_the_order_of_runs_changes_nothing(order: list[str]) -> None:
    own = program(noise={"distribution": "lognormal", "percent": 30, "tail": {"probability": 0.1, "mean": 1}})
    first = {key: variant(own).took(POINT, 16, key) for key in "abcd"}
    assert {key: variant(own).took(POINT, 16, key) for key in order} == first
    assert len({each.wall_s for each in first.values()}) == 4


@pytest.mark.parametrize(
    ("noise", "mean"),
    [
        ({"distribution": "normal", "percent": 10}, 1.0),
        ({"distribution": "uniform", "percent": 10}, 1.0),
        ({"distribution": "lognormal", "percent": 10}, 1.0),
        ({"distribution": "normal", "percent": 10, "tail": {"probability": 0.1, "mean": 2}}, 1.2),
    ],
)
def test_noise_has_its_level_and_mean(noise: Mapping[str, Any], mean: float) -> None:
    tree = {"main": {"time_s": 1}}
    own = Variant(program(noise=noise, program=tree, startup_s=0), Mode.VANILLA, frozenset())
    seconds = np.array([own.took(POINT, 1, f"run {number}").wall_s for number in range(2000)])
    assert seconds.mean() == pytest.approx(mean, abs=0.05)
    if "tail" not in noise:
        assert seconds.std() == pytest.approx(0.1, rel=0.1)


def test_thousands_of_ranks_are_a_few_locations_that_stand_for_all() -> None:
    data = copy.deepcopy(PROGRAM)
    data["noise"] = {"percent": 0}
    data["program"]["main"]["calls"]["setup"]["imbalance"] = 0.5
    own = variant(program_of(data, ("p", "n"), "here"))
    profile = own.profile({"p": 4096, "n": 40}, 4096, "k")
    assert len(profile.locations) == MOST_LOCATIONS
    assert profile.locations[-1].rank == 4095
    table = experiment_from_profiles([({"p": 4096.0, "n": 40.0}, 0, profile)])
    row = table.tree.names.index("simulated->main->setup")
    mean, total, largest = (table.over_locations("time", aggregate)[row, 0, 0] for aggregate in ("mean", "sum", "max"))
    hook = 2e-7 / 2
    assert mean == pytest.approx(1e-5 * 1600 + hook)
    assert total == pytest.approx(mean * 4096)
    assert largest == pytest.approx(1.5e-5 * 1600 + hook)


def test_waiting_ranks_are_those_that_come_early() -> None:
    profile = variant(quiet()).profile({"p": 8, "n": 40}, 8, "k")
    row = profile.tree.names.index("simulated->main->solve->MPI_Allreduce")
    seconds = profile.exclusive("time")[row]
    assert (np.diff(seconds) < 0).all()


def test_failures_come_as_often_as_they_should_and_cost_part_of_a_run() -> None:
    own = variant(program(failure_probability=0.3))
    runs = [own.took(POINT, 16, str(number)) for number in range(500)]
    failed = [run for run in runs if run.failed]
    assert 110 < len(failed) < 190
    whole = min(run.wall_s for run in runs if not run.failed)
    assert 0.4 * whole < np.mean([each.wall_s for each in failed]) < 0.6 * whole


def test_a_run_is_refused_where_a_formula_gives_less_than_nothing() -> None:
    own = variant(program(program={"main": {"time_s": "n - 100"}}))
    with pytest.raises(RunError, match=r"gives -60 at p=16, n=40"):
        own.took(POINT, 16, "k")


def test_the_generator_is_made_of_its_key_alone() -> None:
    assert generator("a", 1).random() == generator("a", 1).random() != generator("a", 2).random()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": "other/1"}, "no description of a program"),
        ({"program": {"a": {}, "b": {}}}, "exactly one function"),
        ({"program": {"main": {"tims_s": 1}}}, "unknown key 'tims_s'"),
        ({"program": {"main": {"time_s": "q * 2"}}}, "unknown name 'q'"),
        ({"program": {"main": {"time_s": "n >"}}}, "not an expression"),
        ({"program": {"main": {"kind": "gpu"}}}, "'gpu' is not allowed"),
        ({"program": {"main": {"imbalance": 1.5}}}, "at most 1"),
        ({"program": {"main": {"calls": [1]}}}, "keys of its own"),
        ({"noise": {"percent": 40}}, "at most 25"),
        ({"noise": {"distribution": "cauchy"}}, "allowed are"),
        ({"instrumentation": {"visit_s": -1}}, "at least 0"),
        ({"failure_probability": True}, "no number and no expression"),
    ],
)
def test_mistakes_in_a_description_are_named(change: Mapping[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        program(**change)


def test_the_description_in_the_documentation_is_one() -> None:
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "simulate.md").read_text()
    block = text[text.index("schema: buran-program") :].split("```")[0]
    own = program_of(yaml.safe_load(block), ("p", "n"), "simulate.md")
    took = variant(own).took({"p": 4096, "n": 100}, 4096, "k")
    assert 0.5 < took.wall_s < 2
