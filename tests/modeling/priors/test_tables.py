"""Whole measurement tables, and every way in which a prior cannot be had."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from prior_tables import POINTS, N, P, table, tree_of

from buran.errors import UsageError
from buran.modeling.experiments import model_experiment
from buran.modeling.functions.terms import added
from buran.modeling.pmnf.model import predict_models, prediction_interval
from buran.modeling.priors.campaign import models_from_priors, noise_resilient
from buran.modeling.priors.paths import Source, project, waits
from buran.modeling.priors.resilient import PUBLISHED
from buran.modeling.priors.waiting import Verdict
from buran.profiles.experiment.table import Experiment
from buran.profiles.profile import Region
from buran.workflow.collect import without_waiting_at
from buran.workflow.model import of_steady_counts
from buran_studies.priors.sparse import effort_points, time_points

ALL = {
    "app": {},
    "app->main": {"basic_blocks": 5 + 0 * N},
    "app->main->solve": {"basic_blocks": 7 + 3 * N**2},
    "app->main->solve->MPI_Allreduce": {
        "visits": 4 + 0 * N,
        "bytes_sent": 4 * 8 * N * P,
        "bytes_received": 4 * 8 * N * P,
        "communicator_size_sum": 4 * P,
        "communicator_size_max": P,
    },
}
TIMES = {
    "app": {"time": 1e-3 + 0 * N},
    "app->main": {"time": 1e-4 + 0 * N},
    "app->main->solve": {"time": 1e-6 + 2e-9 * N**2},
    "app->main->solve->MPI_Allreduce": {"time": 1e-6 + 8e-6 * np.log2(P) + 1e-9 * 32 * N},
}
LAST = "app->main->solve->MPI_Allreduce"


def counts(**changes: object) -> Experiment:
    own = {path: dict(values) for path, values in ALL.items()}
    own[LAST].update(changes)
    return table(own)


def notes_of(counted: Experiment | None, path: str = LAST, timed: Experiment | None = None) -> tuple[str, Source]:
    timed = timed or table(TIMES)
    found = models_from_priors(timed, counted, processes="p")
    own = found[timed.tree.names.index(path)]
    if own.source is Source.TIMES:
        assert own.final is None and own.resilient is None
    return " ".join(own.notes), own.source


def test_models_of_a_table() -> None:
    found = dict(zip(ALL, models_from_priors(table(TIMES), counts(), processes="p"), strict=True))
    solve, reduce = found["app->main->solve"], found[LAST]
    assert solve.source is Source.COMPUTATION and reduce.source is Source.COMMUNICATION
    at = np.array([[64.0, 320.0]])
    assert solve.final is not None and reduce.final is not None
    assert solve.final.function.evaluate(at)[0] == pytest.approx(1e-6 + 2e-9 * 320**2, rel=1e-6)
    assert reduce.final.function.evaluate(at)[0] == pytest.approx(1e-6 + 8e-6 * 6 + 32e-9 * 320, rel=1e-5)
    assert found["app"].source is Source.TIMES and "executes no" in found["app"].notes[0]


def test_work_on_the_faces_of_a_grid_of_ranks_grows_as_the_grid_says() -> None:
    """Three numbers of ranks fit many functions of them; the edges of the grid leave one."""
    points = np.array(list(product((1, 2, 4), (16, 24, 32, 48, 64))), dtype=float)
    derived = {"px": "grid2(p, 1)", "py": "grid2(p, 2)"}

    def blocks(p: np.ndarray, n: np.ndarray, px: np.ndarray, py: np.ndarray) -> np.ndarray:
        return np.asarray(7 + 400 * n**2 / p + 1600 * n - 800 * (2 - 1 / px - 1 / py) * n)

    p, n = points.T
    work = blocks(p, n, np.minimum(p, 2), np.maximum(p / 2, 1))
    timed, counted = (
        table({"app": {}, "app->edge": {m: v}}, points) for m, v in (("time", 1e-9 * work), ("basic_blocks", work))
    )
    found = models_from_priors(timed, counted, processes="p", derived=derived)[1]
    truth = 1e-9 * blocks(*(np.array([x]) for x in (256.0, 512.0, 16.0, 16.0)))[0]
    assert found.final is not None and found.notes == ()
    assert found.final.function.evaluate(np.array([[256.0, 512.0]]))[0] == pytest.approx(truth, rel=0.01)


def test_functions_left_out_belong_to_their_callers() -> None:
    wide = tree_of(list(ALL))
    narrow = tree_of(["app", "app->main", "app->main->MPI_Allreduce"])
    target, itself = project(wide, narrow)
    assert target.tolist() == [0, 1, 1, 2] and itself.tolist() == [True, True, False, True]
    times = table(
        {"app": {"time": 1 + 0 * N}, "app->main": {"time": 1e-6 + 2e-9 * N**2}, "app->main->MPI_Allreduce": {"time": N}}
    )
    found = models_from_priors(times, counts(), processes="p")
    assert found[1].effort is not None and found[1].effort.constant == pytest.approx(12)
    assert found[1].effort.lead(1) == (2, 0) and found[2].source is Source.COMMUNICATION


def test_regions_of_openmp_stand_between_functions_in_times_alone() -> None:
    """As Score-P has them: what a loop calls has its counts; the loop's own are those of nobody that is timed."""
    loop = "app->main->relax->!$omp parallel->!$omp for"
    timed = tree_of(
        ["app", "app->main", "app->main->relax", loop.rpartition("->")[0], loop, f"{loop}->cell", f"{loop}->MPI_Send",
         "app->main->twice", "app->main->twice->!$omp one", "app->main->twice->!$omp one->part",
         "app->main->twice->!$omp two", "app->main->twice->!$omp two->part"]
    )  # fmt: skip
    regions = [replace(each, paradigm="openmp") if each.name.startswith("!$omp") else each for each in timed.regions]
    timed = replace(timed, regions=tuple(regions))
    relax, twice = "app->main->relax", "app->main->twice"
    paths = ["app", "app->main", relax, f"{relax}->cell", f"{relax}->cell->small", f"{relax}->MPI_Send", twice]
    target, itself = project(tree_of([*paths, f"{twice}->part"]), timed)
    named = {path: timed.names[row] if row >= 0 else None for path, row in zip([*paths, "part"], target, strict=True)}
    cell = f"{loop}->cell"
    assert named == dict(
        zip([*paths, "part"], ["app", "app->main", None, cell, cell, f"{loop}->MPI_Send", None, None], strict=True)
    )
    assert itself.tolist() == [True, True, False, True, False, True, False, False]


def test_builds_may_have_different_names() -> None:
    other = {path.replace("app", "other", 1): values for path, values in ALL.items()}
    found = models_from_priors(table(TIMES), table(other), processes="p")
    assert found[2].source is Source.COMPUTATION


# -- bad input


def test_no_effort_at_all() -> None:
    said, source = notes_of(None)
    assert source is Source.TIMES and "effort was measured" in said


def test_effort_missing_for_a_call_path() -> None:
    own = {path: values for path, values in ALL.items() if path != "app->main->solve" and path != LAST}
    said, source = notes_of(table(own), "app->main->solve")
    assert source is Source.TIMES and "were not counted" in said
    said, source = notes_of(table({"app": {"visits": N}, "app->main": {"visits": N}}), "app->main")
    assert source is Source.TIMES and "effort was counted" in said


def test_counts_that_differ_between_repetitions() -> None:
    own = {path: dict(values) for path, values in ALL.items()}
    twice = np.stack([7 + 3 * N**2, 7 + 3 * N**2], axis=1)
    twice[3, 1] += 2
    own["app->main->solve"]["basic_blocks"] = twice
    said, source = notes_of(table(own), "app->main->solve")
    assert source is Source.TIMES and "differ between runs" in said
    calls = np.stack([4 + 0 * N, 4 + 0 * N], axis=1)
    calls[0, 1] = 5
    said, source = notes_of(counts(visits=calls))
    assert source is Source.TIMES and "differ between runs" in said


def test_counts_that_no_function_explains() -> None:
    random = np.random.default_rng(1)
    own = {path: dict(values) for path, values in ALL.items()}
    own["app->main->solve"]["basic_blocks"] = np.rint(random.uniform(10, 1000, len(N)))
    said, source = notes_of(table(own), "app->main->solve")
    assert source is Source.TIMES and f"{len(N)} points" in said
    said, source = notes_of(counts(bytes_sent=np.rint(random.uniform(10, 1000, len(N)))))
    assert source is Source.TIMES and "point to point" in said


def test_a_solver_that_needs_fewer_rounds_at_the_smallest_points() -> None:
    rounds = np.where(P * N <= 40, 121.0, 150.0)
    own = {path: dict(values) for path, values in ALL.items()}
    own["app->main->solve"] = {"visits": rounds, "basic_blocks": rounds * (7 + 3 * N**2)}
    own[LAST] |= {"visits": rounds, "communicator_size_sum": rounds * P}
    own[LAST] |= dict.fromkeys(("bytes_sent", "bytes_received"), rounds * 8 * P)
    times = {path: dict(values) for path, values in TIMES.items()}
    times["app->main->solve"] = {"time": 1e-9 * rounds * (7 + 3 * N**2)}
    times[LAST] = {"time": rounds * 2e-6 * np.log2(P)}
    found = models_from_priors(table(times), table(own), processes="p")
    at = np.array([[128.0, 640.0]])
    for path, right in (("app->main->solve", 1e-9 * 150 * (7 + 3 * 640**2)), (LAST, 150 * 2e-6 * 7)):
        made = found[list(ALL).index(path)]
        assert made.final is not None and made.final.function.evaluate(at)[0] == pytest.approx(right, rel=0.05)


def test_time_that_counted_code_cannot_take() -> None:
    timed = table({"app": {"time": N}, "app->main": {"time": 1e-3 * N}, "app->main->solve": {"time": 1e-7 * N**2}})
    own = {"app": {}, "app->main": {"basic_blocks": 17 + 0 * N}, "app->main->solve": {"basic_blocks": 9 + 20 * N**2}}
    said, source = notes_of(table(own), "app->main", timed)
    assert source is Source.TIMES and "outside of" in said
    found = models_from_priors(timed, table(own), processes="p")
    assert [each.source for each in found] == [Source.TIMES, Source.TIMES, Source.COMPUTATION]
    assert all(each.settled for each in found)


def test_a_communicator_that_changes_its_size() -> None:
    said, source = notes_of(counts(communicator_size_sum=4 * P - 2))
    assert source is Source.TIMES and "different sizes" in said
    said, source = notes_of(counts(communicator_size_sum=4 * (P + 1), communicator_size_max=P + 1))
    assert source is Source.TIMES and "no single power" in said
    said, source = notes_of(counts(communicator_size_sum=0 * P, communicator_size_max=0 * P))
    assert source is Source.TIMES and "names no communicator" in said


def test_zero_bytes() -> None:
    said, source = notes_of(counts(bytes_sent=0 * N, bytes_received=0 * N))
    assert source is Source.COMMUNICATION and "moves no bytes" in said


def test_one_process() -> None:
    points = np.array([(1.0, n) for n in (10, 20, 40, 80, 160)])
    n = points[:, 1]
    one = {
        "app": {"basic_blocks": n},
        "app->MPI_Allreduce": {
            "visits": n,
            "bytes_sent": 8 * n,
            "bytes_received": 8 * n,
            "communicator_size_sum": n,
            "communicator_size_max": 1 + 0 * n,
        },
    }
    timed = table({"app": {"time": n}, "app->MPI_Allreduce": {"time": 1e-7 * n}}, points)
    found = models_from_priors(timed, table(one, points), processes="p")[1]
    assert found.source is Source.COMMUNICATION and "one process" in " ".join(found.notes)
    assert found.final is not None and np.isfinite(found.final.function.evaluate(points)).all()


def test_counts_without_a_formula_extrapolate_by_a_power_law() -> None:
    """Cells of a grid are whole numbers: pairs of neighbours go up and down around their cube."""
    size = np.array([8.0, 10, 12])
    points = np.column_stack([np.full(3, 2.0), size])
    pairs = np.rint(400 * size**3 * np.array([1.13, 0.88, 1.06]))
    own = {"app": {"visits": np.ones(3), "basic_blocks": pairs}}
    timed = table({"app": {"time": 3e-8 * pairs}}, points)
    (found,) = models_from_priors(timed, table(own, points), processes="p")
    assert found.source is Source.COMPUTATION and "power law" in " ".join(found.notes)
    assert found.effort is None  # it proves nothing about growth
    at = np.array([[2.0, 21.0]])
    assert found.final is not None
    assert found.final.function.evaluate(at)[0] == pytest.approx(3e-8 * 400 * 21.0**3, rel=0.35)


def test_a_call_path_that_polls_and_was_counted_once_gets_no_power_law() -> None:
    """How often it looked is chance, however regular it seems."""
    size = np.array([8.0, 10, 12])
    points = np.column_stack([np.full(3, 2.0), size])
    looks = np.rint(400 * size**3 * np.array([1.13, 0.88, 1.06]))
    own = {"app": {"visits": np.ones(3), "basic_blocks": looks}, "app->MPI_Iprobe": {"visits": looks}}
    timed = table({"app": {"time": 3e-8 * looks}, "app->MPI_Iprobe": {"time": 1e-9 * looks}}, points)
    assert models_from_priors(timed, table(own, points), processes="p")[0].source is Source.TIMES
    del own["app->MPI_Iprobe"]
    assert models_from_priors(timed, table(own, points), processes="p")[0].source is Source.COMPUTATION


def test_fewer_points_than_coefficients() -> None:
    timed = table(TIMES)
    few = replace(timed, points=POINTS[:4], values={m: v[:, :4] for m, v in timed.values.items()})
    said, source = notes_of(counts(), LAST, few)
    assert source is Source.TIMES and "4 points" in said and "4 coefficients" in said


@pytest.mark.parametrize("places", [[2], [12], [1, 3]])
def test_one_or_two_points_tell_the_price_of_counted_work(places: list[int]) -> None:
    """A search from so few times finds a constant, at 3 % of the time at the target."""
    work = 7 + 3 * N**2
    timed = table({**TIMES, "app->main->solve": {"time": 2e-9 * work}})
    few = replace(timed, points=POINTS[places], values={m: v[:, places] for m, v in timed.values.items()})
    found = models_from_priors(few, counts(), processes="p")[few.tree.names.index("app->main->solve")]
    assert found.source is Source.COMPUTATION and found.final is not None
    far = POINTS[-1:]
    predicted = predict_models([found.final], far)[0, 0]
    low, high = (ends[0, 0] for ends in prediction_interval([found.final], far))
    truth = 2e-9 * work[-1]
    assert predicted == pytest.approx(truth, rel=0.1)
    assert low < truth < high and high > 1.3 * truth
    published = models_from_priors(few, counts(), processes="p", options=PUBLISHED)
    assert published[few.tree.names.index("app->main->solve")].source is Source.TIMES


def test_operations_without_a_cost_model() -> None:
    own = {"app": {}, "app->MPI_Win_fence": {"visits": 1 + 0 * N, "bytes_sent": 0 * N, "bytes_received": 0 * N}}
    timed = table({"app": {"time": N}, "app->MPI_Win_fence": {"time": 1 + 0 * N}})
    said, source = notes_of(table(own), "app->MPI_Win_fence", timed)
    assert source is Source.TIMES and "MPI_Win_fence" in said


def test_making_a_communicator_grows_with_its_ranks_alone() -> None:
    """However its late ranks spread the times: nothing of the size is in them."""
    made = {"visits": 1 + 0 * N, "bytes_sent": 0 * N, "bytes_received": 0 * N}
    made |= {"communicator_size_sum": P, "communicator_size_max": P}
    own = {"app": {}, "app->MPI_Cart_create": made}
    timed = table({"app": {"time": N}, "app->MPI_Cart_create": {"time": 1e-6 * P**2 * N}})
    found = models_from_priors(timed, table(own), processes="p")[1]
    assert found.source is Source.COMMUNICATION and found.final is not None
    assert not any(1 in factor.columns for term in found.final.function.terms for factor in term.factors)


def test_busy_waiting() -> None:
    own = {
        "app": {},
        "app->spin": {"basic_blocks": 3 * N},
        "app->spin->MPI_Test": {"visits": N, "bytes_sent": 0 * N, "bytes_received": N},
    }
    timed = table({"app": {"time": N}, "app->spin": {"time": N}, "app->spin->MPI_Test": {"time": N}})
    said, source = notes_of(table(own), "app->spin->MPI_Test", timed)
    assert source is Source.TIMES and "polls" in said
    said, source = notes_of(table(own), "app->spin", timed)
    assert source is Source.TIMES and "polls" in said


@pytest.mark.parametrize("metric", ["instructions", "loop_trips"])
def test_other_counts_stand_in(metric: str) -> None:
    own = {"app": {}, "app->main": {metric: 1000 * N**2}}
    said, source = notes_of(table(own), "app->main", table({"app": {"time": N}, "app->main": {"time": 1e-6 * N**2}}))
    assert source is Source.COMPUTATION and f"counted in {metric.replace('_', ' ')}" in said
    found = models_from_priors(
        table({"app": {"time": N}, "app->main": {"time": 1e-6 * N**2}}), table(own), processes="p"
    )
    assert found[1].resilient is not None and found[1].resilient.prior.source == metric
    both = {"app": {}, "app->main": {metric: 1000 * N**2, "basic_blocks": 10 * N**2}}
    said, source = notes_of(table(both), "app->main", table({"app": {"time": N}, "app->main": {"time": 1e-6 * N**2}}))
    assert source is Source.COMPUTATION and not said


def test_instructions_that_scatter_still_stand_in() -> None:
    random = np.random.default_rng(9)
    scattered = 1000 * N[:, None] ** 2 * (1 + 0.001 * random.uniform(-1, 1, (len(N), 3)))
    timed = table({"app": {"time": N}, "app->main": {"time": 1e-9 * N**2}})
    found = models_from_priors(timed, table({"app": {}, "app->main": {"instructions": scattered}}), processes="p")[1]
    assert found.resilient is not None and added(found.resilient.prior.functions).lead(1) == (2, 0)
    assert added(found.resilient.prior.functions).lead(0) == (0, 0)


def test_instructions_of_timed_runs_stand_in_for_effort_runs() -> None:
    from buran.modeling.experiments import model_experiment

    timed = table(
        {"app": {"time": N, "instructions": N}, "app->main": {"time": 1e-6 * N**2, "instructions": 1000 * N**2}}
    )
    alone = model_experiment(timed, ["time"])["time"]
    *_, said = noise_resilient(models_from_priors(timed, None, processes="p"), alone, (64, 320))
    assert said[1].source == "computation" and said[1].prior == "c0 + c1 n^2"


def test_threads_are_a_parameter() -> None:
    points = np.array([(t, n) for t in (1, 2, 4, 8, 16) for n in (10, 20, 40, 80, 160)], dtype=float)
    t, n = points.T
    counted = table({"app": {}, "app->loop": {"basic_blocks": 3 + 160 * n / t}}, points, ("t", "n"))
    timed = table({"app": {"time": n}, "app->loop": {"time": 1e-6 + 1e-7 * n / t}}, points, ("t", "n"))
    own = models_from_priors(timed, counted, processes=None)[1]
    assert own.final is not None and own.final.function.lead(0)[0] == 0
    assert own.final.function.evaluate(np.array([[32.0, 320.0]]))[0] == pytest.approx(1e-6 + 1e-6, rel=1e-5)


def test_other_tables_are_refused() -> None:
    with pytest.raises(UsageError, match="different parameters"):
        models_from_priors(table(TIMES), replace(counts(), parameters=("q", "n")), processes="p")
    with pytest.raises(UsageError, match="no metric 'energy'"):
        models_from_priors(table(TIMES), counts(), processes="p", metric="energy")
    found = models_from_priors(table(TIMES), counts(), processes="p", aggregate="sum")
    assert "sums over ranks" in found[0].notes[0]


def test_a_function_without_mpi_whose_time_outgrows_its_blocks_does_not_wait() -> None:
    from buran.modeling.experiments import model_experiment

    slower = {path: dict(values) for path, values in TIMES.items()}
    slower["app->main->solve"]["time"] = 1e-6 + 2e-9 * N**2 * (1 + P**0.5)
    slower[LAST]["time"] = TIMES[LAST]["time"] + 1e-6 * P**0.5 * N
    timed = table(slower)
    found = dict(zip(ALL, models_from_priors(timed, counts(), processes="p"), strict=True))
    verdicts = {name: found[name].waiting for name in ("app->main->solve", LAST)}
    assert [verdict and verdict.verdict for verdict in verdicts.values()] == [None, Verdict.WAITING]
    alone = model_experiment(timed, ["time"])["time"]
    *_, said = noise_resilient(models_from_priors(timed, counts(), processes="p"), alone, (64, 320))
    assert said[2].waiting == "" and said[3].waiting.startswith("waiting: ")


def test_locks_and_barriers_of_threads_wait_and_loops_of_threads_do_not() -> None:
    assert waits(Region("MPI_Recv", paradigm="mpi")) and waits(Region("pthread_mutex_lock"))
    assert waits(Region("std::mutex::lock()")) and waits(Region("!$omp", paradigm="openmp", role="implicit barrier"))
    assert not waits(Region("!$omp for @loop.c:3", paradigm="openmp", role="loop"))
    assert not waits(Region("barrier_of_heat(double)")) and not waits(Region("solve"))


# -- campaigns and sparse plans


def test_what_a_campaign_is_told() -> None:
    from buran.modeling.experiments import model_experiment

    timed = table(TIMES)
    alone = model_experiment(timed, ["time"])["time"]
    models, said = noise_resilient(models_from_priors(timed, counts(), processes="p"), alone, (64, 320))
    assert len(said) == len(ALL) and models.call_paths == alone.call_paths
    assert said[2].prior == "c0 + c1 n^2" and said[2].times_alone and said[2].waiting == ""
    assert said[2].at_target_s == pytest.approx(1e-6 + 2e-9 * 320**2, rel=1e-5)
    assert models.models[0] is alone.models[0] and models.models[2] is not alone.models[2]


def test_sparse_plans_are_cheap_and_tell_the_prior() -> None:
    costs = P * (1 + N**2)
    chosen = effort_points(POINTS, costs)
    assert len(chosen) <= 13 and costs[chosen].sum() < 0.2 * costs.sum()
    thin = replace(counts(), points=POINTS[chosen], values={m: v[:, chosen] for m, v in counts().values.items()})
    found = models_from_priors(table(TIMES), thin, processes="p")
    assert found[2].effort is not None and found[2].effort.lead(1) == (2, 0)
    assert found[3].source is Source.COMMUNICATION
    some = time_points(POINTS, costs, 0.1 * float(costs.sum()))
    assert 1 < len(some) < 25 and costs[some].sum() <= 0.1 * costs.sum()
    assert len(time_points(POINTS, costs, 0.0)) == 1


def test_a_prior_needs_lines() -> None:
    with pytest.raises(UsageError, match="one parameter alone"):
        effort_points(np.array([[1.0, 2], [2, 3], [3, 5]]), np.ones(3))


def test_starting_mpi_grows_no_faster_than_a_tree() -> None:
    times = {"app": {"time": 1e-3 + 0 * N}, "app->MPI_Init": {"time": 0.2 + 0.01 * P * np.log2(P)}}
    counted = table({"app": {"basic_blocks": 9 + 0 * N}, "app->MPI_Init": {"visits": 1 + 0 * N}})
    start = models_from_priors(table(times), counted, processes="p")[1]
    assert start.final is not None
    assert [term.lead(0) for term in start.final.function.terms] == [(0, 1)]
    assert start.waiting is None


def test_one_number_of_ranks_above_one_allows_waiting_the_growth_of_a_tree() -> None:
    waiting = TIMES | {LAST: {"time": 1e-6 + 3e-3 * (P - 1) + 2e-8 * N**2 * (P - 1)}}
    for most, steepest in ((2, (0, 1)), (64, (1, 0))):
        timed = table(waiting)
        few = timed.points[:, 0] <= most
        timed = replace(timed, values={"time": np.where(few[:, None, None], timed.values["time"], np.nan)})
        reduce = models_from_priors(timed, counts(), processes="p")[3]
        assert reduce.final is not None and reduce.waiting is not None and reduce.waiting.verdict is Verdict.WAITING
        assert max(term.lead(0) for term in reduce.final.function.terms) == steepest


def test_few_points_still_tell_the_cost_of_a_unit_of_work() -> None:
    blocks = 7 + 3 * N**2 + 5 * N + 2 * P
    few = [0, 6, 12]
    timed = table({"app": {"time": 2e-9 * blocks[few]}}, POINTS[few])
    made = models_from_priors(timed, table({"app": {"basic_blocks": blocks}}), processes="p")[0]
    assert made.source is Source.COMPUTATION and made.final is not None
    far = np.array([[64.0, 4096.0]])
    assert made.final.function.evaluate(far)[0] == pytest.approx(2e-9 * (7 + 3 * 4096**2 + 5 * 4096 + 128), rel=0.01)


def test_mpi_times_of_crowded_points_enter_no_model_and_computation_stays() -> None:
    points = np.array([[1.0, 8.0], [2.0, 8.0], [4.0, 8.0]])
    paths = {name: {"time": np.array([1.0, 2.0, 40.0])} for name in ("main", "main->solve", "main->MPI_Allreduce")}
    paths["main->poll"] = {"time": np.array([1.0, 2.0, 40.0])}
    timed = table(paths, points)
    counted = table({**paths, "main->poll->MPI_Iprobe": {"visits": np.array([1.0, 7.0, 9.0])}}, points)
    kept = without_waiting_at(np.array([[4.0, 8.0]]), timed, counted)
    missing = np.isnan(kept.over_locations("time", "mean")[..., 0])
    waiting = np.array([name.endswith(("MPI_Allreduce", "poll")) for name in kept.tree.names])
    assert missing[waiting].tolist() == [[False, False, True]] * 2
    assert not missing[~waiting].any() and np.isfinite(timed.values["time"]).all()
    assert without_waiting_at(np.zeros((0, 2)), timed, counted) is timed


def test_counts_of_which_runs_took_different_ways_have_no_model() -> None:
    points = np.array(list(product((1.0, 2.0, 4.0), (8.0, 16.0))))
    n = points[:, 1]
    steady = np.stack([n**2, n**2], axis=1)
    rounded, mixed = steady.copy(), steady.copy()
    rounded[3, 1] += 1
    mixed[3, 1] *= 1000
    counted = table(
        {path: {"bytes_sent": sent} for path, sent in (("a", steady), ("b", rounded), ("c", mixed))}, points
    )
    models = model_experiment(counted)["bytes_sent"]
    assert [model is None for model in of_steady_counts(models, counted).models] == [False, False, True]


def test_work_without_a_time_is_expected_to_cost_what_other_work_does() -> None:
    """What exchanges something does nothing on one rank, where alone it was timed: a microsecond is no price."""
    points = np.array(list(product((1, 2), (10, 20, 40, 80))), dtype=float)
    p, n = points.T
    counted = table(
        {
            "app": {},
            "app->solve": {"basic_blocks": 7 + 3 * n**3},
            "app->exchange": {"basic_blocks": 9 * n**2 * np.log2(p)},
        },
        points,
    )
    price = 2e-9
    timed = table(
        {
            "app": {"time": 1e-3 + 0 * n},
            "app->solve": {"time": 1e-6 + price * 3 * n**3},
            "app->exchange": {"time": np.where(p == 1, 1e-6 * (1 + n % 3), np.nan)},
        },
        points,
    )
    model = models_from_priors(timed, counted, processes="p")[2].final
    at = np.array([[2.0, 160.0]])
    assert model is not None and model.function.evaluate(at)[0] == pytest.approx(price * 9 * 160**2, rel=0.1)
    lower, upper = prediction_interval([model], at)
    assert lower[0, 0] < 0.3 * price * 9 * 160**2 and upper[0, 0] > 2 * price * 9 * 160**2
    published = models_from_priors(timed, counted, processes="p", options=PUBLISHED)[2]
    assert published.final is None or published.final.function.evaluate(at)[0] < 0.1 * price * 9 * 160**2
