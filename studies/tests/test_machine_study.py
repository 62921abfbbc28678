"""The study of simulated machines: what it asks, and figures that follow from what was found."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from buran.errors import UsageError
from buran_studies.campaign.measured import ways_of
from buran_studies.evaluation.study import Settings
from buran_studies.machine import codes, collectives, generated, study
from buran_studies.machine.counts import _matched

QUICK = Settings("machine", quick=True)


def test_the_quick_study_asks_the_same_of_fewer_ranks() -> None:
    quick, full = (study.shards(Settings("machine", quick=quick)) for quick in (True, False))
    loops = [shard for shard in full if shard["asks"] == "loop"]
    assert {shard["code"] for shard in loops} >= {"sweep", "stencil", "treesort"}
    full = full[: -len(loops)]
    assert [shard["asks"] for shard in quick] == [shard["asks"] for shard in full]
    assert all(set(few["ranks"]) <= set(many["ranks"]) for few, many in zip(quick, full, strict=True))


def test_a_preset_asks_one_question() -> None:
    asked = {shard["asks"] for shard in study.shards(Settings("machine", preset="reality"))}
    assert asked == {"reality"}
    with pytest.raises(UsageError, match="no preset 'realty'"):
        study.shards(Settings("machine", preset="realty"))


def test_figures_follow_from_what_was_found() -> None:
    counts = {"asks": "counts", "example": "sweep", "mpi": "openmpi", "compared": 200, "unequal": 1, "differing": ["x"]}
    waiting = {
        "asks": "waiting", "machine": "ideal", "target": 256, "predicted_over_executed": {"8": 1.1, "16": 1.02},
        "over_theory": [1.0, 1.02, 0.99],
        "spent": {"4": {"cpu_s": 0.1, "memory_mb": 30.0}, "256": {"cpu_s": 2.0, "memory_mb": 90.0}},
    }  # fmt: skip
    same = {"asks": "sameness", "profiles": 80, "differing": 2}
    rows = [("the program", 2.0, 2.2), ("main->a", 1.0, 0.9), ("main->b", 0.5, 0.65)]
    reality = {
        "asks": "reality", "example": "sweep", "uncertainty": 0.1,
        "rows": [{"p": 1, "n": 8, "call_path": name, "real": r, "simulated": s} for name, r, s in rows],
    }  # fmt: skip
    evaluation = study.summarise([counts, waiting, same, reality], QUICK)
    assert [figure.value for figure in evaluation.figures] == pytest.approx([99.5, 10.0, 2.0, 2.0, 2, 10.0, 20.0])
    assert evaluation.figures[-1].note == "50% within 10 %; worst 30 %: main->b at p=1, n=8"
    assert evaluation.figures[0].note == "x"
    assert evaluation.tables[0].rows == (("ideal", 4, 0.1, 30.0), ("ideal", 256, 2.0, 90.0))


def test_loops_are_summed_up_by_way() -> None:
    names = ways_of(codes.SHARES, rivals=True)
    errors = [[0.2, 0.05], *([[0.2, 0.2]] * (len(names) - 3)), [0.02, 0.05], [None, 0.3]]
    ways = [{"errors": each, "core_hours": 1.0, "manual_core_hours": 2.0} for each in errors]
    loop = {"asks": "loop", "code": "sweep", "machine": "ideal", "ways": ways}
    evaluation = study.summarise([loop], QUICK)
    shares = [50.0, *([0.0] * (len(names) - 3)), 100.0, 0.0]
    assert [figure.value for figure in evaluation.figures] == shares
    table, over_codes = evaluation.tables
    assert table.rows == (("sweep", "ideal", 2, *shares),)
    assert [row[0] for row in over_codes.rows] == [way for way, _ in names]


def test_a_cost_model_that_holds_has_no_error_and_a_switch_is_seen() -> None:
    p, size = (values.ravel() for values in np.meshgrid([4.0, 8.0, 16.0, 32.0], collectives.BYTES))
    ones = np.ones(len(p))
    rows = {"p": p, "bytes": size, "visits": ones, "bytes_sent": size, "bytes_received": size}
    held = collectives.judged("MPI_Bcast", {**rows, "time": 1e-6 * np.log2(p) + 1e-9 * size})
    assert max(held["error"], held["worst"], held["beyond"]) < 1e-9 and held["switch_bytes"] is None
    slow = np.where(size >= 4096, 20.0, 1.0)
    switched = collectives.judged("MPI_Bcast", {**rows, "time": slow * 1e-6 * np.log2(p) + 1e-9 * size})
    assert switched["switch_bytes"] == 4096 and switched["split"] < 1e-9 < switched["error"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("smpirun") is None, reason="SimGrid is not installed")
def test_collectives_are_executed_in_each_size() -> None:
    found = study.run_shard({"asks": "collectives", "mpi": "mpich", "ranks": [2, 4]}, QUICK)
    assert {judged["operation"] for judged in found["operations"]} >= {"MPI_Bcast", "MPI_Allreduce", "MPI_Alltoall"}
    evaluation = study.summarise([found], QUICK)
    assert len(evaluation.tables[-1].rows) == len(found["operations"])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("smpirun") is None, reason="SimGrid is not installed")
def test_algorithms_of_a_known_mpi_are_predicted_at_twice_the_ranks() -> None:
    found = study.run_shard({"asks": "collectives", "mpi": "ompi", "ranks": [4, 8, 16, 32]}, QUICK)
    named = {judged["operation"]: judged for judged in found["operations"]}
    known = [named[f"MPI_{name}"] for name in ("Bcast", "Reduce", "Allreduce", "Scatter", "Gather", "Allgather")]
    beyond, unknown = (np.median([judged[key] for judged in known]) for key in ("beyond", "unknown"))
    assert beyond < 0.12 < unknown


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("smpirun") is None, reason="SimGrid is not installed")
def test_a_generated_program_is_judged_where_it_was_executed(tmp_path: Path) -> None:
    result = generated.executed(study.MACHINES["fat tree"], 2, (2, 3, 4, 6, 8, 16), (0.0,), 1, 11, tmp_path)
    computation, communication = result["errors"]
    assert max(computation["re"]["resilient"]) < 0.01  # priors have the shape, and there is no noise
    assert len(communication["re"]["sensitive"]) == 2
    figures, table = generated.summary([result])
    assert "executed at 16" in table.title
    assert {figure.goal for figure in figures if figure.name.endswith("resilient")} == {"20"}


def test_call_paths_are_the_same_whatever_a_handle_of_mpi_is_called() -> None:
    here = {("visits", "main->f(ompi_communicator_t*)->g(int)"): np.array([1]), ("visits", "main"): np.array([2])}
    there = {("visits", "main->f(simgrid::smpi::Comm*)->g(int)"): np.array([3]), ("visits", "main"): np.array([4])}
    assert (
        _matched(here, there).keys() == _matched(there, here).keys() == {("visits", "main->f->g"), ("visits", "main")}
    )


@pytest.mark.slow
@pytest.mark.mpi
@pytest.mark.skipif(shutil.which("smpirun") is None, reason="SimGrid is not installed")
def test_an_example_counts_under_simgrid_as_under_a_real_mpi() -> None:
    (shard,) = (shard for shard in study.shards(QUICK) if (shard["asks"], shard.get("example")) == ("counts", "sweep"))
    found = study.run_shard({**shard, "ranks": [1, 2]}, QUICK)
    assert found["compared"] > 300 and found["differing"] == []
    twice = study.run_shard({"asks": "sameness", "ranks": [4]}, QUICK)
    assert (twice["profiles"], twice["differing"]) == (4, 0)


@pytest.mark.thorough
@pytest.mark.mpi
@pytest.mark.skipif(shutil.which("smpirun") is None, reason="SimGrid is not installed")
def test_calibrated_times_are_held_against_this_machine_at_sizes_between() -> None:
    """How near they are is no test: it depends on what else this machine does."""
    found = study.run_shard({"asks": "reality", "example": "treesort", "ranks": [1]}, QUICK)
    assert found["uncertainty"] > 0 and {row["n"] for row in found["rows"]} == set(study.REALITY["treesort"][1])
    assert all(row["real"] > 0 and row["simulated"] > 0 for row in found["rows"])
    assert {"the program", "main"} < {row["call_path"] for row in found["rows"]}
