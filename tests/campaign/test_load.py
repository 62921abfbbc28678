from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from campaign_files import WriteCampaign

from buran.campaign.load import load_campaign
from buran.campaign.mistakes import CampaignError, Mistake, spelled
from buran.campaign.point import Point
from buran.errors import Exit


def mistakes_of(path: Path) -> tuple[Mistake, ...]:
    with pytest.raises(CampaignError) as caught:
        load_campaign(path)
    assert caught.value.exit_code == Exit.USAGE
    assert str(path) in str(caught.value)
    return caught.value.mistakes


def whole(mistake: Mistake) -> str:
    return " | ".join(text for text in (mistake.what, mistake.why, mistake.hint) if text)


def test_a_correct_file(write_campaign: WriteCampaign) -> None:
    campaign = load_campaign(write_campaign(constraints=["p * n <= 160"]))
    assert campaign.name == "demo"
    assert campaign.parameters == ("p", "n")
    assert campaign.points_dropped == 3
    assert [dict(point) for point in campaign.points[:5]] == [
        {"n": 10, "p": 1},
        {"n": 20, "p": 1},
        {"n": 40, "p": 1},
        {"n": 80, "p": 1},
        {"n": 10, "p": 2},
    ]
    assert [campaign.ranks(point) for point in campaign.points] == [1] * 4 + [2] * 4 + [4] * 3 + [8] * 2


P = "parameters.p"
STEPS = {"parameters__s": {"role": "steps", "value": 600}, "program__run": "{binary} {n} {s}"}

BAD: list[tuple[str, dict[str, Any], str, str]] = [
    # (what, changes, key, words of the message)
    ("unknown key", {"repetition": 3}, "repetition", "'repetitions'"),
    ("key of a newer version", {"glorious": 3}, "glorious", "version of Buran"),
    ("unknown key below", {"program__binry": "x"}, "program.binry", "'binary'"),
    ("key of another place", {"binary": "x"}, "binary", "program.binary"),
    ("missing key", {"program__run": None}, "program.run", "missing"),
    ("missing section", {"parameters": None}, "parameters", "missing"),
    ("no parameters", {"parameters": {}}, "parameters", "empty"),
    ("null section", {"target": "x"}, "target", "keys of"),
    ("empty list", {"parameters__p__values": []}, f"{P}.values", "no values"),
    ("no values", {"parameters__p__values": None}, P, "neither values"),
    ("both", {"parameters__n__values": [1, 2]}, "parameters.n", "both values"),
    ("one value", {"parameters__p__values": [4]}, f"{P}.values", "write 4"),
    ("zero", {"parameters__p__values": [0, 1]}, f"{P}.values[0]", "greater than zero"),
    ("negative", {"parameters__p__values": [1, -2]}, f"{P}.values[1]", "greater than zero"),
    ("negative range", {"parameters__n__range__start": -8}, "parameters.n.range.start", "greater than zero"),
    ("duplicate value", {"parameters__p__values": [1, 2, 2.0]}, f"{P}.values[2]", "stands twice"),
    ("broken ranks", {"parameters__p__values": [1, 2.5]}, f"{P}.values[1]", "whole numbers"),
    ("truth value", {"parameters__p__values": [1, True]}, f"{P}.values[1]", "number"),
    ("text value", {"parameters__p__values": [1, "2"]}, f"{P}.values[1]", "write 2, without quotes"),
    ("infinite", {"parameters__n__range__stop": float("inf")}, "parameters.n.range.stop", "finite"),
    ("NaN", {"parameters__p__values": [1, float("nan")]}, f"{P}.values[1]", "finite"),
    ("huge", {"parameters__n__range__stop": 10**17}, "parameters.n.range.stop", "2**53"),
    ("scalar values", {"parameters__p__values": 4}, f"{P}.values", "write [4]"),
    ("role", {"parameters__p__role": "rank"}, f"{P}.role", "'ranks'"),
    ("two ranks", {"parameters__n__role": "ranks"}, "parameters.n.role", "both have"),
    ("short list of one", {"parameters__p": [4]}, f"{P}.values", "write 4"),
    ("short list of text", {"parameters__n": [1, "x"]}, "parameters.n.values[1]", "number"),
    ("short list without values", {"parameters__n": []}, "parameters.n.values", "no values"),
    ("steps without value", {"parameters__s": {"role": "steps"}}, "parameters.s", "value: 600"),
    ("steps with values", {"parameters__s": {"role": "steps", "values": [6, 60]}}, "parameters.s.values", "steps"),
    ("no steps", {"parameters__s": {"role": "steps", "value": 0}}, "parameters.s.value", "10"),
    ("few steps", {"parameters__s": {"role": "steps", "value": 9}}, "parameters.s.value", "10"),
    ("part of a step", {"parameters__s": {"role": "steps", "value": 60.5}}, "parameters.s.value", "whole"),
    ("value of a size", {"parameters__n__value": 60}, "parameters.n.value", "role is size"),
    ("steps without a choice", STEPS, "strategy.name", "design"),
    ("steps out of reach", {**STEPS, "constraints": ["s < 600"]}, "constraints", "s = 600"),
    ("steps at given points", {**STEPS, "points": [{"p": 1, "n": 8, "s": 6}]}, "parameters.s", "use size"),
    ("range backwards", {"parameters__n__range__stop": 5}, "parameters.n.range", "stops at 5"),
    ("range without step", {"parameters__n__range__factor": None}, "parameters.n.range", "step or factor"),
    ("range factor 1", {"parameters__n__range__factor": 1}, "parameters.n.range", "above 1"),
    ("endless range", {"parameters__n__range__factor": 1.000001}, "parameters.n.range", "10000"),
    ("range of one", {"parameters__n__range__stop": 15}, "parameters.n.range", "only one value, 10"),
    (
        "name of a function",
        {"parameters__max": {"role": "size", "values": [1, 2]}},
        "parameters.max",
        "word of",
    ),
    ("keyword", {"parameters__or": {"role": "size", "values": [1, 2]}}, "parameters.or", "word of"),
    ("placeholder", {"parameters__cc": {"role": "size", "values": [1, 2]}}, "parameters.cc", "{cc}"),
    ("bad name", {"parameters__a-b": {"role": "size", "values": [1, 2]}}, "parameters.a-b", "letters"),
    ("Extra-P", {"parameters__n1": {"role": "size", "values": [1, 2]}}, "parameters", "Extra-P"),
    ("expression", {"constraints": ["is_cub(p)"]}, "constraints[0]", "'is_cube'"),
    ("forbidden", {"constraints": ["p > 1", "__import__('os')"]}, "constraints[1]", "unknown function"),
    ("power", {"constraints": ["9**9**9 > p"]}, "constraints[0]", "too large"),
    ("no condition", {"constraints": ["p * n"]}, "constraints[0]", "compare"),
    ("condition without parameter", {"constraints": ["1 < 2"]}, "constraints[0]", "no parameter"),
    ("constraint as truth value", {"constraints": [True]}, "constraints[0]", "text"),
    ("division by zero", {"constraints": ["n / (p - 2) > 0"]}, "constraints[0]", "p = 2"),
    ("nobody satisfies", {"constraints": ["p > 0", "p > n"]}, "constraints[1]", "16 points"),
    ("one value left", {"constraints": ["p == 4"]}, "constraints", "only p = 4 remains"),
    (
        "budget",
        {"budget": {"core_hours": 1e-6}, "resources": {"expected_time": 60}},
        "budget",
        "below the first",
    ),
    ("no budget", {"budget": {"core_hours": 0}}, "budget.core_hours", "greater than 0"),
    ("percent", {"budget": {"percent_of_full_matrix": 130}}, "budget.percent_of_full_matrix", "100"),
    ("no source", {"program__source": "cod"}, "program.source", "no folder"),
    ("source is a file", {"program__source": "campaign.yaml"}, "program.source", "is a file"),
    ("url as folder", {"program__source": "https://a.example/b.git"}, "program.source", "git clone "),
    ("source of a revision", {"program__source": {"git": "x", "revision": "a"}}, "program.source", "text"),
    (
        "no ranks",
        {"parameters__p__role": "size", "program__run": "{binary} {n} {p}"},
        "parameters",
        "MPI ranks",
    ),
    ("no program", {"program__run": "demo {n}"}, "program.run", "{binary}"),
    ("shell", {"program__run": "{binary} {n} > out"}, "program.run", "by a shell"),
    ("placeholder in run", {"program__run": "{binary} {n} {m}"}, "program.run", "{m}"),
    ("nearest placeholder", {"program__build": "make CXX={mpicx}"}, "program.build", "'mpicxx'"),
    ("no wrapper", {"program__build": "make"}, "program.build", "{mpicxx}"),
    ("flags nowhere", {"program__build": "make {mpicc}", "program__flags": "-O3"}, "program.flags", "{flags}"),
    ("blank command", {"program__run": "  "}, "program.run", "empty"),
    ("binary outside", {"program__binary": "../x"}, "program.binary", "inside the folder"),
    ("binary absolute", {"program__binary": "/bin/ls"}, "program.binary", "inside the folder"),
    ("parameter unused", {"program__run": "{binary}"}, "parameters.n", "never reaches"),
    (
        "ranks unused",
        {"environments": {"local": {"launcher": "none"}}},
        "environments.local.launcher",
        "ranks varies",
    ),
    (
        "template without ranks",
        {"environments": {"local": {"launcher": "mpiexec {command}"}}},
        "environments.local.launcher",
        "ranks varies",
    ),
    (
        "template without command",
        {"environments": {"local": {"launcher": "mpiexec -n {ranks}"}}},
        "environments.local.launcher",
        "{command}",
    ),
    (
        "launcher",
        {"environments": {"local": {"launcher": "openmp"}}},
        "environments.local.launcher",
        "'openmpi'",
    ),
    (
        "launcher placeholder",
        {"environments": {"local": {"launcher": "x -n {rank} {command}"}}},
        "environments.local.launcher",
        "'ranks'",
    ),
    (
        "variable",
        {"environments": {"local": {"variables": {"A B": 1}}}},
        "environments.local.variables.A B",
        "name",
    ),
    ("environment", {"environment": "locl"}, "environment", "'local'"),
    ("which environment", {"environments": {"a": {}, "b": {}}}, "environments", "a, b"),
    ("no environments", {"environments": {}}, "environments", "empty"),
    ("name", {"name": "my demo"}, "name", "letters, digits"),
    ("name with a slash", {"name": "a/b"}, "name", "letters, digits"),
    ("number as name", {"name": 12}, "name", "quotes"),
    ("switch", {"warmup": "on"}, "warmup", "write true"),
    ("no repetitions", {"repetitions": 0}, "repetitions", "equal to 1"),
    ("half repetitions", {"repetitions": 1.5}, "repetitions", "whole number"),
    ("truth value as number", {"repetitions": True}, "repetitions", "whole number"),
    ("metric", {"metrics": ["tiem"]}, "metrics[0]", "'time'"),
    ("no metrics", {"metrics": []}, "metrics", "empty"),
    ("metric twice", {"metrics": ["time", "visits", "time"]}, "metrics", "time twice"),
    ("counter", {"counters": ["wishes"]}, "counters[0]", "allowed are: instructions"),
    ("counter twice", {"counters": ["cycles", "cycles"]}, "counters", "cycles twice"),
    ("refinement needs time", {"metrics": ["basic_blocks"]}, "metrics", "time and visits"),
    ("backend", {"backend": "embeded"}, "backend", "'embedded'"),
    ("strategy", {"strategy": {"name": "line"}}, "strategy.name", "'lines'"),
    ("criterion", {"model": {"criterion": "aic"}}, "model.criterion", "allowed are: error"),
    ("no terms", {"model": {"terms_per_parameter": 0}}, "model.terms_per_parameter", "greater than"),
    ("space of none", {"model": {"space": {"q": ["4 0"]}}}, "model.space.q", "no parameter"),
    (
        "no exponents",
        {"model": {"space": {"n": ["four 0"]}}},
        "model.space.n",
        "powers",
    ),
    ("no logarithm", {"model": {"space": {"n": ["4"]}}}, "model.space.n", "powers"),
    ("negative logarithm", {"model": {"space": {"n": ["4 -1"]}}}, "model.space.n", "logarithm from 0 to 5"),
    ("steep", {"model": {"space": {"n": ["11 0"]}}}, "model.space.n", "a power up to 10"),
    ("term twice in one entry", {"model": {"space": {"n": ["4 0 0"]}}}, "model.space.n", "4 0 twice"),
    ("term twice", {"model": {"space": {"n": ["4 0 1", "8/2 1"]}}}, "model.space.n", "4 1 twice"),
    ("no term", {"model": {"space": {"n": ["0 0"]}}}, "model.space.n", "0 0"),
    (
        "accuracy",
        {"strategy": {"name": "lines", "accuracy_percent": 5}},
        "strategy.accuracy_percent",
        "only design does",
    ),
    (
        "accuracy of a published one",
        {"strategy": {"name": "gpr", "accuracy_percent": 5}},
        "strategy.accuracy_percent",
        "'gpr'",
    ),
    (
        "overhead of a published refinement",
        {"refinement": {"strategy": "filter-and-expand", "overhead_percent": 5}},  # though that is the default
        "refinement.overhead_percent",
        "relevance",
    ),
    (
        "threshold of ours",
        {"refinement": {"threshold": 0.1}},
        "refinement.threshold",
        "filter-and-expand",
    ),
    ("batch of all", {"strategy": {"name": "full", "batch": 2}}, "strategy.batch", "knows no batch"),
    ("patience of design", {"strategy": {"name": "design", "patience": 3}}, "strategy.patience", "only cpf"),
    ("share", {"refinement": {"share": 1.5}}, "refinement.share", "less than 1"),
    ("target point", {"target": {"p": 8}}, "target", "no value for n"),
    (
        "target name",
        {"target": {"p": 8, "n": 3, "k": 3}},
        "target.k",
        "no parameter",
    ),
    ("ranks twice", {"resources": {"ranks": 4}}, "resources.ranks", "contradicts"),
    ("broken nodes", {"resources": {"nodes": "p / 2"}}, "resources.nodes", "0.5 at p = 1"),
    ("no threads", {"resources": {"threads": "p - 1"}}, "resources.threads", "0 at p = 1"),
    ("too many nodes", {"resources": {"nodes": "2 * p"}}, "resources.nodes", "every node"),
    ("nodes condition", {"resources": {"nodes": "p > 4"}}, "resources.nodes", "condition"),
    ("time limit", {"resources": {"time_limit": "60 - n"}}, "resources.time_limit", "-20 at n = 80"),
    ("time limit 0", {"resources": {"time_limit": 0}}, "resources.time_limit", "0"),
    (
        "time limit as for Slurm",
        {"resources": {"time_limit": "1-00:10:00"}},
        "resources.time_limit",
        "a time as 10min",
    ),
    (
        "time limit with a unit",
        {"resources": {"time_limit": "10m"}},
        "resources.time_limit",
        "10min or 2h",
    ),
    ("memory with a unit", {"resources": {"memory_mb": "4G"}}, "resources.memory_mb", "megabytes"),
    ("expected", {"resources": {"expected_time": "1 / (n - 40)"}}, "resources.expected_time", "n = 10"),
    ("resource type", {"resources": {"nodes": True}}, "resources.nodes", "an expression"),
    ("points and values", {"points": [{"p": 1, "n": 1}, {"p": 2, "n": 2}]}, f"{P}.values", "role alone"),
    (
        "evaluation name",
        {"evaluation_points": [{"p": 1, "m": 9}]},
        "evaluation_points[0]",
        "'m' is no parameter",
    ),
    ("evaluation lacks", {"evaluation_points": [{"p": 1}]}, "evaluation_points[0]", "no value for n"),
    (
        "evaluation zero",
        {"evaluation_points": [{"p": 1, "n": 0}]},
        "evaluation_points[0].n",
        "greater than zero",
    ),
    (
        "evaluation half rank",
        {"evaluation_points": [{"p": 1.5, "n": 1}]},
        "evaluation_points[0]",
        "whole numbers",
    ),
    (
        "evaluation twice",
        {"evaluation_points": [{"p": 1, "n": 9}, {"n": 9, "p": 1.0}]},
        "evaluation_points[1]",
        "stands twice",
    ),
]


@pytest.mark.parametrize(("changes", "key", "words"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_input(write_campaign: WriteCampaign, changes: dict[str, Any], key: str, words: str) -> None:
    path = write_campaign(**changes)
    found = [(spelled(mistake.path), whole(mistake)) for mistake in mistakes_of(path)]
    assert any(key == own and words in text for own, text in found), found


def test_mistakes_have_the_line_of_their_key(write_campaign: WriteCampaign) -> None:
    path = write_campaign(repetitions=0)
    (mistake,) = mistakes_of(path)
    assert path.read_text().splitlines()[mistake.line - 1] == "repetitions: 0"
    assert f"{path}:{mistake.line}, key repetitions" in mistake.where


def test_steps_without_a_number_are_one_mistake(write_campaign: WriteCampaign) -> None:
    few = {"parameters__s": {"role": "steps", "value": 9}, "program__run": "{binary} {n} {s}"}
    path = write_campaign(**few, target={"p": 64, "n": 512}, evaluation_points=[{"p": 32, "n": 8}])
    assert [mistake.path for mistake in mistakes_of(path)] == [("parameters", "s", "value")]


def test_all_mistakes_come_at_once(write_campaign: WriteCampaign) -> None:
    path = write_campaign(
        program__source="nowhere",
        program__build="make CXX={mpicx}",
        parameters__p__values=[1, 2, 2],
        constraints=["is_cub(p)", "p >"],
        environment="moon",
        strategy={"max_iteration": 3},
    )
    found = mistakes_of(path)
    assert len(found) == 7
    assert [mistake.line for mistake in found] == sorted(mistake.line for mistake in found)


def test_a_list_of_wrong_items_is_not_called_empty(write_campaign: WriteCampaign) -> None:
    (mistake,) = mistakes_of(write_campaign(metrics=["tiem"]))
    assert mistake.path == ("metrics", 0)


def test_points_are_sorted_by_cores_first(write_campaign: WriteCampaign) -> None:
    roles = {"n": {"role": "size", "values": [3, 1, 2]}, "p": {"role": "ranks", "values": [4, 1]}}
    campaign = load_campaign(write_campaign(parameters=roles))
    assert [(p["p"], p["n"]) for p in campaign.points] == [(1, 1), (1, 2), (1, 3), (4, 1), (4, 2), (4, 3)]


def test_one_parameter_is_enough(write_campaign: WriteCampaign) -> None:
    path = write_campaign(parameters__p=None, resources={"ranks": 1})
    campaign = load_campaign(path)
    assert len(campaign.points) == 4
    assert campaign.ranks_parameter is None


def test_ranks_may_come_from_several_parameters(write_campaign: WriteCampaign) -> None:
    path = write_campaign(
        parameters={
            "px": {"role": "size", "values": [1, 2]},
            "py": {"role": "size", "values": [1, 3]},
        },
        program__run="{binary}",
        resources={"ranks": "px * py"},
    )
    campaign = load_campaign(path)
    assert sorted(map(campaign.ranks, campaign.points)) == [1, 2, 3, 6]


def test_ranks_may_reach_the_program_through_its_command(write_campaign: WriteCampaign) -> None:
    for run in ("mpirun -n {ranks} {binary} {n}", "mpirun -n {p} {binary} {n}"):
        path = write_campaign(program__run=run, environments={"local": {"launcher": "none"}})
        command = load_campaign(path).run_command(Point.of({"p": 4, "n": 10}), "x", "y")
        assert command == ["mpirun", "-n", "4", "x", "10"]


def test_listed_points(write_campaign: WriteCampaign) -> None:
    listed = [{"p": 8, "n": 1}, {"p": 1, "n": 3}, {"p": 1, "n": 2.5}]
    roles = {"p": {"role": "ranks"}, "n": {"role": "size"}}
    campaign = load_campaign(write_campaign(parameters=roles, points=listed))
    assert [dict(point) for point in campaign.points] == [
        {"n": 2.5, "p": 1},
        {"n": 3, "p": 1},
        {"n": 1, "p": 8},
    ]


@pytest.mark.parametrize(
    ("listed", "key", "words"),
    [
        ([{"p": 1, "n": 1}, {"p": 2, "n": 2}, {"n": 1, "p": 1}], "points[2]", "stands twice"),
        ([{"p": 1, "n": 1}, {"p": 2}], "points[1]", "no value for n"),
        ([{"p": 1, "n": 1}, {"p": 2, "n": 2, "np": 1}], "points[1]", "'np'"),
        ([{"p": 1, "n": 1}, {"p": 1, "n": 2}], "points", "one value, 1"),
        ([], "points", "empty"),
        ([{"p": 1, "n": 1}, {"p": 4, "n": 4}, {"p": 2, "n": 9}], "points[2]", "evaluation point too"),
    ],
)
def test_listed_points_that_are_wrong(
    write_campaign: WriteCampaign, listed: list[dict[str, int]], key: str, words: str
) -> None:
    roles = {"p": {"role": "ranks"}, "n": {"role": "size"}}
    path = write_campaign(parameters=roles, points=listed, evaluation_points=[{"p": 2, "n": 9}])
    found = [(spelled(mistake.path), whole(mistake)) for mistake in mistakes_of(path)]
    assert any(key == own and words in text for own, text in found), found


def test_evaluation_points_are_held_out(write_campaign: WriteCampaign) -> None:
    evaluation = [{"p": 8, "n": 80}, {"p": 8, "n": 81}]
    campaign = load_campaign(write_campaign(evaluation_points=evaluation))
    assert len(campaign.points) == 15
    assert campaign.points_held_out == 1
    assert not set(campaign.points) & set(campaign.evaluation_points)


def test_constraints_do_not_apply_to_evaluation_points_but_are_noted(write_campaign: WriteCampaign) -> None:
    campaign = load_campaign(write_campaign(evaluation_points=[{"p": 8, "n": 900}], constraints=["n < 99"]))
    assert len(campaign.evaluation_points) == 1
    assert any("`n < 99`" in note for note in campaign.notes)


def test_earlier_constraints_guard_later_ones(write_campaign: WriteCampaign) -> None:
    campaign = load_campaign(write_campaign(constraints=["p > 1", "n / (p - 1) > 0"]))
    assert campaign.points_dropped == 4


def test_too_many_combinations(write_campaign: WriteCampaign) -> None:
    many = {"role": "size", "range": {"start": 1, "stop": 2000, "step": 1}}
    path = write_campaign(parameters__n=many, parameters__m=many, program__run="{binary} {n} {m}")
    assert "16000000 combinations" in whole(mistakes_of(path)[0])


def test_a_hundred_thousand_points(write_campaign: WriteCampaign) -> None:
    many = {"role": "size", "range": {"start": 1, "stop": 316, "step": 1}}
    path = write_campaign(
        parameters={"p": {"role": "ranks", "range": {"start": 1, "stop": 316, "step": 1}}, "n": many},
        constraints=["p * n % 2 == 0", "p + n > 3"],
    )
    campaign = load_campaign(path)
    assert len(campaign.points) + campaign.points_dropped == 316**2
    cores = [campaign.cores(point) for point in campaign.points]
    assert cores == sorted(cores)
