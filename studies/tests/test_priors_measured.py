"""Models of generated programs: from tables as measurements give them, and from real runs of an example."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from buran.errors import RunError
from buran.modeling.functions.terms import Array, ModelFunction
from buran.profiles.experiment.jsonl import write_jsonl
from buran.profiles.experiment.table import AGGREGATES, Experiment
from buran.profiles.profile import CallTree, Region
from buran_studies.evaluation.evaluation import Kind
from buran_studies.generator.program import Truth
from buran_studies.generator.spec import Kernel, Spec, random_spec
from buran_studies.priors import cases as priors_cases
from buran_studies.priors import judged as priors_judged
from buran_studies.priors import measured as priors_measured
from buran_studies.priors import tables as priors_tables

SEED, FUNCTIONS = 3, 6


def tree_of(spec: Spec) -> CallTree:
    names, parents = ["synthetic", "run_frame(Frame const&, long, long)"], [-1, 0]
    for kernel in spec.kernels:
        truth = Truth.of(kernel)
        names += [f"{kernel.name}(Frame const&)", f"{truth.communicator}(Frame const&)", truth.operation or ""]
        parents += [1, len(parents), len(parents) + 1]
    regions = list(dict.fromkeys(names))
    return CallTree(
        tuple(Region(name, paradigm="mpi" if name.startswith("MPI_") else "compiler") for name in regions),
        np.array([regions.index(name) for name in names]),
        np.array(parents),
    )


def counts_of(kernel: Kernel, points: Array) -> dict[str, dict[str, Array]]:
    """Counts of the kernel, and of its operation."""
    truth = Truth.of(kernel)
    blocks = sum(
        np.rint(ModelFunction(0.0, (c,), (term,)).evaluate(points))
        for c, term in zip(kernel.computation.coefficients, kernel.computation.terms, strict=True)
    )
    calls = np.rint(kernel.calls.evaluate(points))
    moved = calls * np.rint(kernel.message_bytes.evaluate(points))
    everybody = points[:, 0] if kernel.operation in ("allgather", "allreduce") else 1.0
    sizes = 0.0 if kernel.operation in ("send", "receive") else points[:, 0]
    return {
        kernel.name: {"basic_blocks": 9.0 + blocks},
        truth.operation or "": {
            "visits": calls,
            "bytes_sent": 0 * moved if kernel.operation == "receive" else moved * everybody,
            "bytes_received": 0 * moved if kernel.operation == "send" else moved * everybody,
            "communicator_size_sum": calls * sizes,
            "communicator_size_max": sizes + 0 * calls,
        },
    }


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    spec = random_spec("synthetic", FUNCTIONS, SEED)
    tree, points = tree_of(spec), spec.points
    metrics = {name: np.zeros((len(tree), len(points), 1, len(AGGREGATES))) for name in priors_measured._COUNTS}
    rows = priors_measured.rows_of(spec, tree)
    for kernel, (_, row) in zip(spec.kernels, rows, strict=True):
        for place, own in zip(row.values(), counts_of(kernel, points).values(), strict=True):
            for metric, values in own.items():
                metrics[metric][place] = values[:, None, None]
    counted = Experiment(("p", "n"), points, tree, metrics, dict.fromkeys(metrics, ""))
    path = tmp_path_factory.mktemp("counts") / "counted.jsonl"
    write_jsonl(counted, path)
    told = {
        "builds": {"time": {"cpu_s": 5.0, "wall_s": 6.0, "max_rss_mib": 100.0}},
        "runs": {"number": 25, "wall_s": 9.0, "cpu_s": 8.0, "max_rss_mib": 60.0, "failed": 0},
        "prices": [[p, n, p * n] for p, n in points.tolist()],
    }
    out: list[dict[str, object]] = [
        {
            "counted": path.read_text(),
            "overhead": {"time": 1.0, "effort": 1.1},
            "counts_are_the_same": True,
            **told,
        }
    ]
    everywhere = np.vstack([points, [[16.0, 96.0]]])
    random = np.random.default_rng(1)
    for repetition in range(2):
        times: dict[str, list[list[float]]] = {part: [] for part in priors_measured.PARTS}
        for truth, _ in rows:
            assert truth.prior is not None
            computation = 1e-6 + 1e-9 * truth.rounds.evaluate(everywhere)
            for part, own in (
                ("computation", computation),
                ("communication", 1e-6 * truth.prior.design(everywhere).sum(1)),
            ):
                times[part].append((own * random.uniform(0.99, 1.01, len(own))).tolist())
        out.append({"points": everywhere.tolist(), "time": times, "repetition": repetition, **told})
    return [json.loads(json.dumps(each)) for each in out]


def test_counts_give_the_exponents_and_times_the_rest(results: list[dict[str, object]]) -> None:
    found = json.loads(json.dumps(priors_judged.judge(FUNCTIONS, SEED, results)))
    for part in priors_measured.PARTS:
        own = found["parts"][part]
        for key in ("ed", "ed_sparse", "ed_effort"):
            assert np.array(own[key]).max() == 0, (part, key)
        assert set(own["re"]) == {"1", "2"} and max(own["re"]["2"]) < 0.05
        assert own["waiting"]["verdicts"].count("none") >= FUNCTIONS - 1  # chance names one in a hundred
    assert found["cost"]["single"] == pytest.approx(1.0) and found["cost"]["sparse"] < 0.4
    noisy = [priors_judged.noise(part, 75, 4, SEED, [found]) for part in priors_measured.PARTS]
    for each in noisy:
        errors = {name: np.mean(own) for name, own in each["re"].items()}
        assert errors["resilient"] < errors["single"] and errors["resilient"] < errors["sensitive"]
    figures, tables, plots = priors_tables.measured(results[0], results[1:], found)
    by_name = {figure.name: figure for figure in figures}
    assert by_name["computation: functions with exponent deviation 0"].value == 100
    assert by_name["bytes: functions with exponent deviation 0"].value == 100
    assert {figure.kind for figure in figures} == {Kind.MEASURED}
    assert (
        "Table 2" in tables[0].title
        and len(tables[0].rows) == 2
        and tables[0].rows[0][3] == "0 ± 0"
        and len(plots[0].curves) == 4
    )
    more, noise, pictures = priors_tables.with_noise(noisy)
    assert len(more) == 6 and len(noise) == len(pictures) == 2


def test_functions_that_did_not_run_are_named() -> None:
    spec = random_spec("synthetic", 2, SEED)
    with pytest.raises(RunError, match="kernel_001 is not in the profile"):
        priors_measured.rows_of(spec, tree_of(replace(spec, kernels=spec.kernels[:1])))


# -- case studies


def test_theory_is_read_from_the_examples() -> None:
    found = {claim.kernel: claim for claim in priors_cases.claims("treesort")}
    merge = found["sort_keys->merge_runs"]
    assert merge.part == "computation" and merge.time.lead(1) == (1, 1) and merge.known == (True, True)
    gather = found["find_common_splitters->MPI_Allgather"]
    assert gather.part == "communication" and gather.effort.lead(0) == (1, 0)
    receive = {claim.kernel: claim for claim in priors_cases.claims("sweep")}["receive_upstream->MPI_Recv"]
    assert receive.known == (False, True) and receive.effort.lead(1) == (2, 0)
    assert all(priors_cases.claims(example) for example in priors_cases.CASES)


@pytest.mark.mpi
@pytest.mark.thorough
def test_effort_models_of_a_real_example_are_those_of_theory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small = replace(priors_cases.CASES["treesort"], p=(1, 2, 4, 8), n=(1024, 2048, 4096, 8192), test=(4, 16384))
    monkeypatch.setattr(priors_cases, "CASES", {"treesort": small})
    found = json.loads(json.dumps(priors_cases.evaluate("treesort", 1)))
    assert len(found["rows"]) == len(priors_cases.claims("treesort"))
    assert all(max(row["ed_effort"]) == 0 and max(row["ed_resilient"]) == 0 for row in found["rows"])
    figures, tables = priors_tables.cases([found])
    assert len(tables[0].rows) == len(found["rows"]) and all(figure.kind is Kind.MEASURED for figure in figures)
