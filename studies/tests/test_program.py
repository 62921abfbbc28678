"""Generated programs: what is written, and that it counts what it says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from buran.campaign.load import load_campaign
from buran.campaign.plan import Mode
from buran.cli import main
from buran.errors import ConfigError, FormatError, UsageError
from buran.modeling.functions.terms import ModelFunction
from buran_studies.generator.program import Truth, split, write_program
from buran_studies.generator.spec import OPERATIONS, random_spec, read_spec
from buran_studies.priors.runs import Workshop
from buran_studies.simulate.program import read_program
from buran_studies.simulate.truth import ROUND_S

SPEC = {
    "name": "mine",
    "parameters": {"p": [1, 2, 3], "n": [4, 8]},
    "kernels": [
        {"computation": "100 * n^2 + 50 * p", "operation": name, "bytes": "8 * n * p", "calls": "2"}
        if name != "barrier"
        else {"computation": "10 * n * p", "style": "nested", "operation": name, "array_operation": "multiply"}
        for name in OPERATIONS
    ],
}


def write(folder: Path, **changes: object) -> Path:
    path = folder / "spec.yaml"
    path.write_text(yaml.safe_dump({**SPEC, **changes}, sort_keys=False))
    return path


def test_the_same_seed_draws_the_same_functions() -> None:
    one, again, other = (random_spec("x", 30, seed) for seed in (1, 1, 2))
    assert one == again and one != other
    assert random_spec("x", 10, 1, first=20).kernels == one.kernels[20:]
    assert {kernel.operation for kernel in random_spec("x", 200, 1).kernels} == set(OPERATIONS)


def test_draws_stay_within_bounds() -> None:
    spec = random_spec("x", 200, 3)
    for kernel in spec.kernels:
        rounds = kernel.computation.evaluate(spec.points)
        assert rounds.min() >= 390 and rounds.max() < 1e8
        assert kernel.calls.evaluate(spec.points).max() <= 16
        assert kernel.message_bytes.evaluate(spec.points).max() * 12 <= spec.array_bytes


def test_what_is_written(tmp_path: Path) -> None:
    spec = read_spec(write(tmp_path))
    write_program(spec, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "frame.hpp", "main.cpp", "kernels_00.cpp", "CMakeLists.txt", "campaign.yaml", "truth.json",
    }  # fmt: skip
    campaign = load_campaign(tmp_path / "out" / "campaign.yaml")
    assert campaign.parameters == ("p", "n") and len(campaign.points) == 6
    truth = json.loads((tmp_path / "out" / "truth.json").read_text())
    first = truth["kernels"][0]
    assert first["basic_blocks"]["grows_like"] == "n^2 + p"
    assert first["communication"]["function"] == "kernel_000_communication"
    assert first["communication"]["operation"] == "MPI_Allgather"
    assert first["communication"]["bytes_sent"]["text"] == "16 p^2 * n"
    assert ModelFunction.from_json(first["basic_blocks"]["rounds"]).lead(1) == (2, 0)
    with pytest.raises(UsageError, match="not overwritten"):
        write_program(spec, tmp_path / "out")


def test_functions_are_distributed_over_programs(tmp_path: Path) -> None:
    assert main(["generate", "--functions", "7", "--per-program", "3", "--seed", "4", "-o", str(tmp_path / "g")]) == 0
    parts = sorted((tmp_path / "g").iterdir())
    assert [path.name for path in parts] == ["synthetic_000", "synthetic_001", "synthetic_002"]
    names = [k["kernel"] for path in parts for k in json.loads((path / "truth.json").read_text())["kernels"]]
    assert names == [f"kernel_{number:03d}" for number in range(7)]
    with pytest.raises(UsageError, match="at least one function"):
        split(random_spec("x", 2, 0), 0)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["SPEC", "--functions", "3"],
        ["--functions", "0"],
        ["--functions", "3", "--seed", "-1"],
        ["--functions", "3", "--per-program", "0"],
        ["missing.yaml"],
    ],
)
def test_wrong_requests_are_refused(tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    given = [str(write(tmp_path)) if word == "SPEC" else word for word in words]
    assert main(["generate", *given, "-o", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parameters": {}}, "needs parameters"),
        ({"parameters": {"p": [0]}}, "whole numbers from 1"),
        ({"parameters": {"p": [2, 10**400]}}, "whole numbers from 1"),
        ({"parameters": {"p": "many"}}, "whole numbers from 1"),
        ({"kernels": []}, "list of kernels"),
        ({"kernels": [{"computation": "x^2"}]}, "is no complexity"),
        ({"kernels": [{"operation": "alltoall"}]}, "unknown operation"),
        ({"kernels": [{"style": "wild"}]}, "unknown style"),
        ({"kernels": [{"bytes": "n"}]}, "need an operation"),
        ({"kernels": [{"compute": "n"}]}, "unknown key 'compute'"),
        ({"kernels": [{"name": "a b"}]}, "cannot be called"),
        ({"kernels": [{"name": "f"}, {"name": "f"}]}, "same name"),
        ({"kernels": [{"name": "f"}, {"name": "f_communication"}]}, "same name"),
        ({"kernels": [{"operation": "bcast", "bytes": "n^9"}]}, "bytes of kernel kernel_000 are too large"),
        ({"kernels": [{"operation": "gather", "bytes": "4096 * n"}], "array_bytes": 65536}, "too large"),
        ({"kernels": [{"computation": "n^10 * p^10"}]}, "computation of kernel kernel_000 are too large"),
        ({"array_bytes": 3}, "array_bytes"),
        ({"name": "a/b"}, "cannot be called"),
    ],
)
def test_bad_descriptions_are_refused(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises((FormatError, UsageError)) as error:
        read_spec(write(tmp_path, **changes))
    assert message in str(error.value)


@pytest.mark.mpi
@pytest.mark.thorough
def test_programs_count_what_they_say(tmp_path: Path) -> None:
    spec = read_spec(write(tmp_path))
    write_program(spec, tmp_path / "source" / "mine")
    workshop = Workshop.open(tmp_path / "work")
    command = "{mpicxx} -std=c++17 -O2 -Wall -Wextra -Werror -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -o mine *.cpp"
    binary, _ = workshop.build(command, tmp_path / "source" / "mine", "mine", Mode.EFFORT)
    at = np.array([[3.0, 8.0]])
    profile, _ = workshop.run(binary, Mode.EFFORT, 3, ["8"])
    again, _ = workshop.run(binary, Mode.EFFORT, 3, ["8"])
    assert profile is not None and again is not None
    for metric in ("basic_blocks", "bytes_sent", "bytes_received", "visits"):
        np.testing.assert_array_equal(profile.values[metric], again.values[metric])
    rows = {tuple(name.split("->")[-2:]): row for row, name in enumerate(profile.tree.names)}
    bare = {tuple(part.split("(")[0] for part in key): row for key, row in rows.items()}
    for kernel in spec.kernels:
        truth = Truth.of(kernel)
        row = bare[(truth.communicator, truth.operation or "")]
        assert truth.bytes_sent is not None and truth.bytes_received is not None
        for metric, wanted in (("bytes_sent", truth.bytes_sent), ("bytes_received", truth.bytes_received)):
            if (kernel.operation, metric) in (("send", "bytes_received"), ("receive", "bytes_sent")):
                continue
            mean = float(profile.exclusive(metric)[row].mean())
            assert mean == pytest.approx(float(wanted.evaluate(at)[0])), (kernel.name, metric)
    blocks = {key[-1]: profile.exclusive("basic_blocks")[row].mean() for key, row in bare.items()}
    assert blocks["kernel_000"] >= 100 * 64 + 50 * 3
    too_large = workshop.folder / "run" / "err"
    from buran.errors import RunError

    with pytest.raises(RunError):
        workshop.run(binary, Mode.EFFORT, 2, ["100000000"])
    assert "is more than" in too_large.read_text()


def test_ground_truth_of_generated_programs_is_taken(tmp_path: Path) -> None:
    spec = random_spec("drawn", 4, 7)
    write_program(spec, tmp_path)
    own = read_program(tmp_path / "truth.json", spec.parameters)
    assert {kernel.name for kernel in spec.kernels} < {node.name for node in own.nodes}
    at = dict(zip(spec.parameters, (8, 32), strict=True))
    for kernel in spec.kernels:
        truth = Truth.of(kernel)
        node = next(node for node in own.nodes if node.name == kernel.name)
        rounds = float(truth.rounds.evaluate(np.array([[8.0, 32.0]]))[0])
        assert node.counts["basic_blocks"](at) == pytest.approx(rounds, abs=1)
        assert node.time_s(at) == pytest.approx(ROUND_S * rounds)


def test_ground_truth_for_other_parameters_is_refused(tmp_path: Path) -> None:
    write_program(random_spec("drawn", 1, 7), tmp_path)
    with pytest.raises(ConfigError, match="the campaign has no parameter 'p'"):
        read_program(tmp_path / "truth.json", ("a", "b"))
