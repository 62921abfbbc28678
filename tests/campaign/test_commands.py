"""Commands that compute: expressions in braces, named values, grids, and the files that runs read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from campaign_files import WriteCampaign
from hypothesis import given
from hypothesis import strategies as st

from buran.campaign.expressions import LARGEST_GRID, ExpressionError, compile_expression
from buran.campaign.load import load_campaign
from buran.campaign.mistakes import CampaignError, Mistake, spelled
from buran.campaign.point import Point

GRID = {"px": "isqrt_factor(p)", "py": "p // px"}


def mistake_of(path: Path) -> Mistake:
    with pytest.raises(CampaignError) as caught:
        load_campaign(path)
    (mistake,) = caught.value.mistakes
    assert mistake.line
    return mistake


def test_expressions_and_values_are_put_into_the_command(write_campaign: WriteCampaign) -> None:
    run = "{binary} -grid {px} {py} -t {=min(p, 2)} '{=n * ranks} of {=1 if p < 4 else px * 10}'"
    campaign = load_campaign(write_campaign(values=GRID, program__run=run))
    command = campaign.run_command(Point.of({"p": 8, "n": 20}), "x", "y")
    assert command == ["x", "-grid", "2", "4", "-t", "2", "160 of 20"]


def test_a_build_takes_them_too_and_its_numbers_identify_it(write_campaign: WriteCampaign) -> None:
    build = "make CXX={mpicxx} PX={px} HALF={=n // 2}"
    campaign = load_campaign(write_campaign(values=GRID, program__build=build, program__run="{binary}"))
    values = campaign.build_values(Point.of({"p": 8, "n": 20}))
    assert values == (("=n // 2", 10), ("px", 2))
    assert campaign.build_command(dict(values), {"mpicxx": "m"}).split() == ["make", "CXX=m", "PX=2", "HALF=10"]


def test_values_serve_constraints_and_resources(write_campaign: WriteCampaign) -> None:
    path = write_campaign(values=GRID, constraints=["px == py"], resources={"nodes": "py"})
    campaign = load_campaign(path)
    assert {point["p"] for point in campaign.points} == {1, 4}
    assert campaign.nodes(Point.of({"p": 4, "n": 10})) == 2


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        ({"program__run": "{binary} {=n // (p - 4)}"}, "program.run", ("division by zero", "p = 4")),
        ({"program__run": "{binary} {=n / 3}"}, "program.run", ("gives 3.33", "n=10", "whole number")),
        ({"program__run": "{binary} {=n * q}"}, "program.run", ("unknown name 'q'", "p, n")),
        ({"program__run": "{binary} {=n > 2}"}, "program.run", ("is a condition",)),
        ({"program__build": "make {mpicxx} {=n / 3}"}, "program.build", ("gives 3.33",)),
        ({"values": {"m": "n / 3"}, "program__run": "{binary} {m}"}, "values.m", ("gives 3.33",)),
        ({"values": {"m": "k + 1", "k": "n"}}, "values.m", ("unknown name 'k'",)),
        ({"values": {"n": "p"}}, "values.n", ("the name of", "a parameter")),
        ({"values": {"binary": "p"}}, "values.binary", ("the name of",)),
        ({"values": {"g": "grid3(p, 4)"}, "program__run": "{binary} {n} {g}"}, "values.g", ("no edge 4",)),
        ({"program__inputs": ["absent.txt"]}, "program.inputs[0]", ("input is", "absent.txt")),
        (
            {"program__inputs": [{"path": "code", "name": "../x"}]},
            "program.inputs[0].name",
            ("inside the folder",),
        ),
        ({"program__inputs": ["code", {"path": "{build}/code"}]}, "program.inputs[1]", ("two inputs",)),
        (
            {"program__inputs": [{"path": "code", "fill": True}]},
            "program.inputs[0].fill",
            ("before anything",),
        ),
        ({"program__start_in": "/tmp"}, "program.start_in", ("inside the folder",)),
        ({"program__keep_output": ["../*"]}, "program.keep_output[0]", ("inside the folder",)),
    ],
)
def test_what_cannot_be_computed_is_named(
    write_campaign: WriteCampaign, changes: dict[str, Any], key: str, words: tuple[str, ...]
) -> None:
    mistake = mistake_of(write_campaign(**changes))
    assert f"key {key}" in mistake.where
    for word in words:
        assert word in f"{mistake.what} {mistake.why}"


def test_values_are_put_into_the_text_of_an_input(write_campaign: WriteCampaign) -> None:
    written = {"path": "case.in", "fill": True}
    path = write_campaign(values=GRID, program__inputs=[written], program__run="{binary}")
    (path.parent / "case.in").write_text("x = {=p * n}\nranks = {ranks}, {px} {{here}}\n")
    texts = load_campaign(path).input_texts(Point.of({"p": 4, "n": 10}))
    assert texts == {"case.in": "x = 40\nranks = 4, 2 {here}\n"}  # and n counts as used, which no command does


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("x = {m}", ("unknown placeholder {m}", "case.in:2")),
        ("x = {binary}", ("unknown placeholder {binary}", "case.in:2")),
        ("x = {", ("a single '{'", "case.in:2")),
        ("x = {=n / 3}", ("gives 3.33", "key program.inputs")),
    ],
)
def test_mistakes_in_the_text_of_an_input_are_named_with_their_line(
    write_campaign: WriteCampaign, line: str, words: tuple[str, ...]
) -> None:
    path = write_campaign(program__inputs=[{"path": "case.in", "fill": True}])
    (path.parent / "case.in").write_text(f"a\n{line}\n")
    mistake = mistake_of(path)
    for word in words:
        assert word in f"{mistake.where} {mistake.what} {mistake.why}"


def test_numbers_that_are_not_whole_come_from_parameters_alone(write_campaign: WriteCampaign) -> None:
    path = write_campaign(parameters__n={"role": "size", "values": [0.25, 0.5]}, program__run="{binary} {=2.5 * n}")
    assert load_campaign(path).run_command(Point.of({"p": 1, "n": 0.25}), "x", "y") == ["x", "0.625"]


@given(st.integers(1, 5000))
def test_grids_are_whole_and_as_compact_as_can_be(number: int) -> None:
    for dimensions in (2, 3):
        names = [f"grid{dimensions}(p, {edge})" for edge in range(1, dimensions + 1)]
        edges = [compile_expression(name, ["p"], "number")({"p": number}) for name in names]
        product = 1
        for edge in edges:
            product *= edge
        assert product == number
        assert edges == sorted(edges, reverse=True)
        cube = round(number ** (1 / dimensions))
        if cube**dimensions == number:
            assert edges == [cube] * dimensions
    root = compile_expression("isqrt_factor(p)", ["p"], "number")({"p": number})
    assert root == compile_expression("grid2(p, 2)", ["p"], "number")({"p": number})


@pytest.mark.parametrize("number", [0.5, LARGEST_GRID + 1])
def test_grids_of_other_numbers_are_refused(number: float) -> None:
    with pytest.raises(ExpressionError, match="whole numbers from 1"):
        compile_expression("grid2(p, 1)", ["p"], "number")({"p": number})


def test_values_that_use_one_another_cannot_grow_without_end(write_campaign: WriteCampaign) -> None:
    values = {f"v{i}": f"v{i - 1} + v{i - 1}" if i else "n" for i in range(10)}
    mistake = mistake_of(write_campaign(values=values, program__run="{binary} {n}"))
    assert spelled(mistake.path) == "values.v9"
