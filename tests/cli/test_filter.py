"""``buran filter`` without a campaign: lists from profiles and call graphs, and checks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from buran.cli import main
from buran.measurement.toolchain.static_features import Call, Loop, StaticFeatures, StaticFunction
from buran.profiles.experiment.extrap_tree import write_extrap_tree
from buran.profiles.metrics import METRICS
from buran.profiles.profile import CallTree, Location, Profile, Region

REGIONS = (
    Region("main", "main"),
    Region("kernel(int)", "_Z6kerneli"),
    Region("accessor()", "_Z8accessorv"),
    Region("setup()", "_Z5setupv"),
)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    tree = CallTree(REGIONS, np.array([0, 1, 2, 3]), np.array([-1, 0, 1, 0]))
    metrics = {"time": METRICS["time"], "visits": METRICS["visits"]}

    def profile(n: int) -> Profile:
        own = np.array([1e-4, 1e-4 * n**2, 1e-6 * n**2, 0.05])
        inclusive = np.array([own.sum(), own[1] + own[2], own[2], own[3]])
        visits = np.array([1, 1, 10 * n**2, 1], dtype=np.uint64)
        values = {"time": inclusive[:, None], "visits": visits[:, None]}
        return Profile(tree, (Location(0),), metrics, values, {})

    folder = tmp_path / "runs"
    write_extrap_tree(folder, [({"n": n}, 1, profile(n)) for n in (10, 20, 30, 40, 50)])
    return folder


def function(
    symbol: str, calls: tuple[str, ...] = (), *, inline: bool = False, depth: int = 0, statements: int = 1
) -> StaticFunction:
    loops = (Loop(1, depth, 1),) if depth else ()
    called = tuple(Call(each, 0, 1) for each in calls)
    sizes = (1, statements, statements, 0, "", False)
    return StaticFunction(symbol, symbol, symbol, "", 0, "a.cpp", "external", inline, True, *sizes, loops, called)


def written(path: Path, *functions: StaticFunction) -> Path:
    path.write_text(StaticFeatures(functions, ("a.cpp",), (), None).to_jsonl())
    return path


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    return written(
        tmp_path / "static.jsonl",
        function("main", ("_Z6kerneli", "_Z5setupv")),
        function("_Z6kerneli", ("_Z8accessorv", "_Z5innerv"), depth=2, statements=9),
        function("_Z8accessorv", inline=True),
        function("_Z5setupv", depth=1, statements=3),
        function("_Z5innerv", inline=True, depth=3, statements=8),
    )


def said(capsys: pytest.CaptureFixture[str], *words: str, expect: int = 0) -> str:
    assert main(["filter", *words]) == expect
    read = capsys.readouterr()
    return read.out if expect == 0 else read.out + read.err


def test_from_profiles(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "--from", str(runs), "--target", "n=500")
    assert "INCLUDE MANGLED _Z6kerneli" in text and "_Z8accessorv" not in text and "_Z5setupv" not in text
    assert "# kernel(int): " in text and "1 visits" in text
    data = json.loads(said(capsys, "--from", str(runs), "--target", "n=500", "--json"))
    assert [function["symbol"] for function in data["functions"]] == ["_Z6kerneli", "main"]


def test_with_a_call_graph_new_functions_are_found(runs: Path, graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "--from", str(runs), "--callgraph", str(graph), "--target", "n=500", "--format", "plain")
    assert text.split() == ["_Z5innerv", "_Z6kerneli", "main"]


def test_queries(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ("--callgraph", str(graph), "--format", "plain")
    assert said(capsys, *call, "--select", "loops(2)").split() == ["_Z5innerv", "_Z6kerneli"]
    assert said(capsys, *call, "--select", "(loops(2) | main) - inline").split() == ["_Z6kerneli", "main"]
    assert "would change nothing" in said(capsys, *call, "--select", "main", "--keep", "_Z5*", expect=2)


def test_check(graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "some.filter"
    path.write_text("SCOREP_REGION_NAMES_BEGIN\nEXCLUDE *\nINCLUDE MANGLED main *setup*\nSCOREP_REGION_NAMES_END\n")
    assert "2 of 5 functions" in said(capsys, "--check", str(path), "--callgraph", str(graph))
    assert "3 rules" in said(capsys, "--check", str(path))
    path.write_text("SCOREP_REGION_NAMES_BEGIN\nINCLUDE MANGLED absent\nSCOREP_REGION_NAMES_END\n")
    text = said(capsys, "--check", str(path), "--callgraph", str(graph), expect=1)
    assert "line 2: 'absent'" in text
    assert "2 functions declared inline" in text


@pytest.mark.slow
def test_a_list_of_a_hundred_thousand_rules_and_an_empty_one(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, empty = tmp_path / "large.filter", tmp_path / "empty.filter"
    rules = "\n".join(f"INCLUDE MANGLED _Z5f{number:05}i" for number in range(100_000))
    path.write_text(f"SCOREP_REGION_NAMES_BEGIN\nEXCLUDE *\n{rules}\nINCLUDE MANGLED main\nSCOREP_REGION_NAMES_END\n")
    found = said(capsys, "--check", str(path), "--callgraph", str(graph), expect=1)
    assert "1 of 5 functions" in found and found.count("matches no function") == 100_000
    empty.write_text("")
    assert "5 of 5 functions" in said(capsys, "--check", str(empty), "--callgraph", str(graph))


def test_patterns_that_name_nothing_are_refused(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ("--from", str(runs), "--target", "n=500", "--format", "plain")
    assert "kernel" not in said(capsys, *call, "--drop", "kernel")
    assert "_Z8accessorv" in said(capsys, *call, "--keep", "accessor()")
    for option in ("--keep", "--drop"):
        assert "names no function" in said(capsys, *call, option, "kernal*", expect=2)


def test_a_syntax_error_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.filter"
    path.write_text("SCOREP_REGION_NAMES_BEGIN\nINCLUDE a -> b\nMANGLED\n")
    text = said(capsys, "--check", str(path), expect=2)
    assert f"{path}:1" in text and "never ended" in text


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "there is no such file"),
        (("--callgraph", "absent.mcg"), "cannot be read"),
        (("--select", "main"), "no functions"),
        (("--select", "main", "--callgraph", "absent.mcg"), "cannot be read"),
        (("--check", "absent.filter"), "cannot be read"),
    ],
)
def test_bad_input(words: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert why in said(capsys, *words, expect=2)


@pytest.mark.parametrize(
    ("target", "why"),
    [("n=x", "is no point"), ("n=5,n=6", "'n=6' is not"), ("p=3", "no value of n")],
)
def test_bad_targets(runs: Path, target: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert why in said(capsys, "--from", str(runs), "--target", target, expect=2)


def test_measured_functions_that_the_call_graph_lacks(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "small.jsonl", function("main"))
    words = ("--from", str(runs), "--callgraph", str(path), "--target", "n=500", "--format", "plain")
    assert said(capsys, *words).split() == ["_Z6kerneli", "main"]
