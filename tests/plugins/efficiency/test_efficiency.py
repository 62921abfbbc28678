"""POP efficiencies: against values by hand from profiles of the examples, and as products of each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_identity import folder, identities, loaded

from buran.plugins.efficiency.campaign import core_use, efficiency_table
from buran.plugins.efficiency.table import COLUMNS, CoreUse, efficiencies, efficiency_text, pop_names
from buran.profiles.metrics import METRICS
from buran.profiles.profile import CallTree, Location, Profile, Region
from buran.reporting.html import render_page
from made_up import data_of, experiment, headline_about, model, report, told

__all__ = ["folder"]
EXAMPLES = Path(__file__).parents[2] / "data" / "examples"


def profile_of(rows, roles=None) -> Profile:
    """Make a profile of (depth, region, exclusive seconds of each rank, visits of each rank)."""
    names = list(dict.fromkeys(name for _, name, *_ in rows))
    regions = tuple(
        Region(
            name,
            paradigm="mpi" if name.startswith("MPI_") else "compiler" if place else "measurement",
            role=(roles or {}).get(name, "function"),
        )
        for place, name in enumerate(names)
    )
    parent, above = [], {-1: -1}
    for place, (depth, *_) in enumerate(rows):
        parent.append(above[depth - 1])
        above[depth] = place
    tree = CallTree(regions, np.array([names.index(row[1]) for row in rows]), np.array(parent))
    seconds = np.array([row[2] for row in rows], dtype=np.float64)
    return Profile(
        tree,
        tuple(Location(rank) for rank in range(seconds.shape[1])),
        {name: METRICS[name] for name in ("visits", "time")},
        {"time": tree.inclusive(seconds), "visits": np.array([row[3] for row in rows], dtype=np.uint64)},
        {},
    )


def example(name: str) -> Profile:
    """Read what Cube's own tools say of a run of an example on two ranks."""
    rows = []
    for line in (EXAMPLES / f"{name}-p2.txt").read_text().splitlines()[1:]:
        depth, region, *numbers = line.split("\t")
        rows.append((int(depth), region, [float(x) for x in numbers[:2]], [int(x) for x in numbers[2:]]))
    return profile_of(rows)


# By awk from the same files, without the root, MPI_Init and MPI_Finalize:
#   $2 != "MPI_Init" && $2 != "MPI_Finalize" { w0 += $3; w1 += $4; if ($2 !~ /^MPI_/) { u0 += $3; u1 += $4 } }
@pytest.mark.parametrize(
    ("name", "whole_s", "parallel", "balance", "communication"),
    [
        ("stencil", 0.0200382, 0.565995, 0.638870, 0.885931),
        ("sweep", 0.0007673, 0.445210, 0.997209, 0.446456),
        ("treesort", 0.0066685, 0.939787, 0.969338, 0.969515),
    ],
)
def test_examples_by_hand(name, whole_s, parallel, balance, communication):
    use = core_use(example(name))
    assert use.whole_s == pytest.approx(whole_s, abs=1e-7)
    found = efficiencies({"p": 2}, use, None, divided=True)
    assert (found.parallel, found.load_balance, found.communication) == pytest.approx(
        (parallel, balance, communication), abs=1e-6
    )
    assert found.transfer is found.scalability is found.global_ is None


def test_each_is_the_product_of_those_behind_it():
    use = CoreUse(4, mean_s=2.0, most_s=3.0, whole_s=5.0, transfer_s=1.0, work=800.0)
    base = CoreUse(1, mean_s=6.0, most_s=6.0, whole_s=6.0, work=600.0)
    for divided, scalability, work in ((True, 6 / 8, 600 / 800), (False, 3.0, 3.0)):
        found = efficiencies({"p": 4}, use, base, divided=divided)
        assert found.scalability == pytest.approx(scalability) and found.work_scaling == pytest.approx(work)
        assert found.parallel == pytest.approx(0.4) == pytest.approx(found.load_balance * found.communication)
        assert found.communication == pytest.approx(found.serialisation * found.transfer)
        assert found.scalability == pytest.approx(found.work_scaling * found.cost_scaling)
        assert found.global_ == pytest.approx(found.parallel * found.scalability)


def test_transfer_is_told_where_all_ranks_leave_together():
    rows = [
        (0, "program", [0.0, 0.0], [1, 1]),
        (1, "main", [3.0, 1.0], [1, 1]),
        (2, "MPI_Allreduce", [0.5, 2.5], [4, 4]),
    ]
    roles = {"MPI_Allreduce": "all2all", "MPI_Recv": "point2point"}
    assert core_use(profile_of(rows, roles)).transfer_s == 0.5
    apart = [*rows[:2], (2, "MPI_Allreduce", [0.5, 2.5], [4, 3])]
    assert core_use(profile_of(apart, roles)).transfer_s is None
    messages = [*rows, (2, "MPI_Recv", [0.5, 0.5], [4, 4])]
    assert core_use(profile_of(messages, roles)).transfer_s is None


def runs(*ranks: int):
    """Profiles in which ranks share ten seconds of work unevenly, with a second of MPI on each."""
    for p in ranks:
        busy = np.linspace(0.9, 1.1, p) * 10 / p if p > 1 else np.array([10.0])
        rows = [
            (0, "program", [0.0] * p, [1] * p),
            (1, "main", busy.tolist(), [1] * p),
            (2, "MPI_Allreduce", (1.0 + busy.max() - busy).tolist(), [4] * p),
        ]
        yield {"p": p, "n": 3000, "k": 30}, 0, profile_of(rows, {"MPI_Allreduce": "all2all"})


def test_the_table_of_a_campaign():
    table = experiment(30, values=3, repetitions=2)
    said = report(table)
    found = efficiency_table(said, list(runs(1, 2, 4)), [], "p", [])
    assert [row.point["p"] for row in found.measured] == [1, 2, 4] and "share one amount" in found.reference
    last = found.measured[-1]
    assert last.parallel == pytest.approx(2.5 / 3.75) and last.transfer == pytest.approx(2.75 / 3.75)
    assert last.scalability == pytest.approx(1.0) and last.global_ == pytest.approx(last.parallel)
    assert found.target.point == said.target and found.target.load_balance is None  # of three points
    low, high = found.target.parallel_interval
    assert low <= found.target.parallel <= high
    text = efficiency_text(found)
    assert "≥ 73.3 %" in text and "target, from models" in text and "- cost of work" not in text
    assert "Parallel Efficiency, PE" in text and "- work (POP" not in text
    shown = render_page(
        replace(said, further={"efficiency": found}), data_of(said, table), {}, "", headline_about(said)
    )
    assert 'id="efficiency"' in shown and all(title in shown for title in COLUMNS.values())
    assert ", LBE" in shown and ", CompE" in shown
    weak = pop_names(replace(found, divided=False))
    assert "parallel" in weak and not {"global", "computational scalability", "work", "cost of work"} & weak.keys()


def weak(*ranks: int):
    """Profiles in which each rank has ten seconds of work of its own."""
    for p in ranks:
        rows = [
            (0, "program", [0.0] * p, [1] * p),
            (1, "main", [10.0] * p, [1] * p),
            (2, "MPI_Allreduce", [1.0] * p, [4] * p),
        ]
        yield {"p": p, "n": 3000, "k": 30}, 0, profile_of(rows, {"MPI_Allreduce": "all2all"})


@pytest.mark.parametrize(
    ("made", "word", "divided", "asked"),
    [
        (runs, "auto", True, ""),
        (runs, "strong", True, ""),
        (runs, "weak", False, "is this strong scaling?"),
        (weak, "auto", False, ""),
        (weak, "weak", False, ""),
        (weak, "strong", True, "is this weak scaling?"),
    ],
)
def test_a_wrong_word_for_scaling_is_noticed_in_both_directions(made, word, divided, asked):
    found = efficiency_table(report(experiment(30, values=3)), list(made(1, 2, 4)), [], "p", [], word)
    assert found.divided is divided
    assert found.contradiction.endswith(asked) and bool(found.contradiction) is bool(asked)


def asked(word: str, made, **times):
    """Return what a report begins with whose campaign says what more ranks mean, on 1024 ranks."""
    said = told(times)
    of_runs = [({"p": point["p"], "n": 100}, *rest) for point, *rest in made(1, 2, 4)]
    table = efficiency_table(said, of_runs, [], "p", [], word)
    return headline_about(replace(said, further={"efficiency": table})), table


def test_strong_scaling_is_asked_up_to_how_many_ranks_it_pays():
    headline, table = asked("strong", runs, relax=model((16.0, -1, 0)), MPI_Allreduce=model((0.01, 1, 0)))
    assert [ranks for ranks, _ in table.along] == [2.0**k for k in range(11)]
    assert dict(table.along)[32] == pytest.approx(16 / (16 + 0.01 * 32**2))
    assert table.along[-1][1] == pytest.approx(table.target.global_)
    low, high = table.target.global_interval
    assert low <= table.target.global_ <= high
    (answer,) = headline.further
    assert "how many ranks" in answer.question and answer.answer == "32"  # 39 by the formula, fastest at 40
    assert any("on 32 ranks, 19.5 times" in fact for fact in answer.facts)
    waiting = {"relax": model((1.0, 0, 0)), "MPI_Allreduce": model((1.0, 1, 0))}
    slower, table = asked("strong", runs, **waiting)
    assert dict(table.along)[1] == 0.5 and "Fastest on 1 rank" in slower.further[0].facts
    sure, _ = asked("strong", runs, relax=model((16.0, -1, 0)), MPI_Allreduce=model((1e-4, 0, 0)))
    assert sure.further[0].answer == "1024, the target"


def test_weak_scaling_is_asked_for_the_efficiency_at_the_target():
    times = {"relax": model((1.0, 0, 0)), "MPI_Allreduce": model((0.05, 1 / 2, 0))}
    headline, table = asked("weak", weak, **times)
    assert table.along[-1][1] == pytest.approx(1 / (1 + 0.05 * 32)) == pytest.approx(table.target.global_)
    (answer,) = headline.further
    assert "efficient" in answer.question and answer.answer == "38.5 %"
    assert any("up to 256 ranks" in fact for fact in answer.facts)
    # A wrong word is answered all the same, and said to be wrong.
    wrong, table = asked("strong", weak, **times)
    assert wrong.further[0].facts[0] == table.contradiction  # the short report shows one


def test_without_a_word_or_models_efficiency_is_not_asked_for_or_not_known():
    times = {"relax": model((1.0, 0, 0))}
    assert asked("auto", weak, **times)[0].further == ()
    table = efficiency_table(report(experiment(3)), list(weak(1, 2)), [], "p", [], "weak")
    said = replace(report(None), further={"efficiency": replace(table, target=None, along=())})
    assert headline_about(said).further[0].answer == "Not known"


def test_points_that_only_counting_runs_have_are_in_the_table():
    found = efficiency_table(report(experiment(30, values=3)), list(runs(1)), list(runs(1, 2)), "p", [])
    assert [row.counting for row in found.measured] == [False, True]
    assert found.measured[1].scalability == pytest.approx(1.0) and "with counting" in efficiency_text(found)


def test_without_ranks_or_times_there_is_no_table():
    said = report(experiment(30, values=3, repetitions=2))
    assert efficiency_table(said, list(runs(1)), [], "p", []) is None
    assert efficiency_table(said, list(runs(1, 2)), [], None, []) is None
    assert efficiency_table(said, [], [], "p", []) is None


def test_a_word_for_scaling_makes_another_campaign_of_the_same_runs(folder):
    before, after = (identities(loaded(folder, changes)) for changes in ({}, {"scaling": "weak"}))
    assert (before[0], before[2]) == (after[0], after[2]) and before[1] != after[1]
