"""Every exact count of every call path is compared, however small, and what moved is told from what changed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from buran.modeling.experiments import model_experiment
from buran.plugins.versions.compare import compare_sides
from buran.plugins.versions.condition import Condition, broken_by
from buran.plugins.versions.difference import Comparison
from buran.plugins.versions.page import comparison_section
from buran.plugins.versions.side import Side
from buran.plugins.versions.text import changed, growth_in_words, sentences, since
from buran.profiles.experiment.table import AGGREGATES, Experiment
from buran.profiles.profile import CallTree, Region

P = np.array([1.0, 2.0, 3.0, 4.0, 6.0])
TARGET = 1024.0
LARGE = 1e6 * P
PROGRAM = {"main": 0 * P + 3, "main->solve": LARGE, "main->solve->flux": 5e5 + 0 * P, "main->setup": 9 + 11 * P}
SQUARED = np.array([15, 36.5, 193 / 3, 99.75, 1165 / 6])  # 9 + 4 p^2 + 7 p - 5 / p


def region(name: str) -> Region:
    return Region(name, paradigm="mpi" if name.startswith("MPI_") else "compiler")


def side(counts: Mapping[str, np.ndarray], wobble: Mapping[str, float] | None = None) -> Side:
    """Return a campaign that counted basic blocks twice at each point; `wobble` is added the second time."""
    names = tuple(counts)
    parents = [names.index(name.rpartition("->")[0]) if "->" in name else -1 for name in names]
    tree = CallTree(tuple(region(name.rpartition("->")[2]) for name in names), np.arange(len(names)), np.array(parents))
    once = np.array([counts[name] for name in names])
    values = np.stack([once, once + np.array([[(wobble or {}).get(name, 0.0)] for name in names])], axis=2)
    table = Experiment(
        ("p",),
        P[:, None],
        tree,
        {
            "basic_blocks": np.repeat(values[..., None], len(AGGREGATES), axis=-1),
            "visits": np.ones((*values.shape, len(AGGREGATES))),
        },
        {"basic_blocks": "occ", "visits": "occ"},
    )
    return Side("version", ("p",), {"p": TARGET}, dict(model_experiment(table, ["basic_blocks"])), table)


def differing(comparison: Comparison) -> dict[str, str]:
    rows = comparison.of("grown", "shrunk")
    return {row.call_path: f"{row.growth_before} → {row.growth_after}" for row in rows}


def without(name: str) -> dict[str, np.ndarray]:
    return {path: values for path, values in PROGRAM.items() if path != name}


def test_a_small_function_whose_class_changed_is_named_first_both_ways() -> None:
    before, after = side(PROGRAM), side({**PROGRAM, "main->setup": SQUARED})
    assert differing(compare_sides(before, after)) == {"main->setup": "p → p^2"}
    assert differing(compare_sides(after, before)) == {"main->setup": "p^2 → p"}
    assert {each.call_path for each in broken_by(compare_sides(before, after), [Condition("class")])} == {"main->setup"}


def test_what_differs_is_ranked_by_its_share_at_the_target() -> None:
    after = side({**PROGRAM, "main->setup": SQUARED * 1e3, "main->solve": LARGE + 1, "main": PROGRAM["main"] + 1})
    rows = changed(compare_sides(side(PROGRAM), after))
    assert [row.call_path for row in rows] == ["main->setup", "main->solve", "main"]
    assert rows[0].measured is not None and rows[0].share_after > 0.5 > rows[0].measured.after / LARGE[-1]


@pytest.mark.parametrize("by", [1.0, -1.0])
def test_one_more_or_less_of_a_million_differs(by: float) -> None:
    after = side({**PROGRAM, "main": PROGRAM["main"] + by})
    comparison = compare_sides(side(PROGRAM), after)
    assert list(differing(comparison)) == ["main"]
    (broken,) = broken_by(comparison, [Condition("counts")])
    assert (broken.condition, broken.call_path) == ("counts", "main")
    assert broken_by(compare_sides(after, after), [Condition("counts")]) == ()


def test_the_same_program_is_the_same_and_says_what_was_compared() -> None:
    text = " ".join(sentences(compare_sides(side(PROGRAM), side(PROGRAM))))
    assert "4 exact counts none" in text


def test_counts_that_depend_on_the_run_are_not_compared_and_that_is_said() -> None:
    after = side(PROGRAM, {"main->setup": 2.0})
    text = " ".join(sentences(compare_sides(side(PROGRAM), after)))
    assert "1 more depend" in text


def test_a_function_with_another_name_is_the_same_function() -> None:
    renamed = {path.replace("solve", "advance"): values for path, values in PROGRAM.items()}
    comparison = compare_sides(side(PROGRAM), side(renamed))
    assert {(pair.before, pair.after, pair.renamed) for pair in comparison.moved} == {
        ("main->solve", "main->advance", True),
        ("main->solve->flux", "main->advance->flux", False),
    }
    assert not differing(comparison) and not comparison.new and not comparison.gone
    assert "compared as one: 2" in comparison_section(comparison)


def test_a_function_that_moved_is_the_same_function_and_one_that_also_changed_is_named() -> None:
    flux = PROGRAM["main->solve->flux"]
    moved = {**without("main->solve->flux"), "main->setup->flux": flux}
    assert not differing(compare_sides(side(PROGRAM), side(moved)))
    comparison = compare_sides(side(PROGRAM), side({**moved, "main->setup->flux": flux + P}))
    assert list(differing(comparison)) == ["main->setup->flux"]
    assert [(pair.before, pair.renamed) for pair in comparison.moved] == [("main->solve->flux", False)]


def test_a_function_that_was_inlined_or_lost_its_hooks_changes_nothing() -> None:
    inlined = without("main->solve->flux")
    inlined["main->solve"] = inlined["main->solve"] + PROGRAM["main->solve->flux"]
    comparison = compare_sides(side(PROGRAM), side(inlined))
    assert not differing(comparison)
    assert {each.call_path for each in comparison.gone} == {"main->solve->flux"}


def test_a_new_function_is_told_from_a_change_of_its_caller() -> None:
    after = side({**PROGRAM, "main->setup->halo": 2 * P})
    comparison = compare_sides(side(PROGRAM), after)
    (row,) = comparison.of("grown")
    assert (row.call_path, row.through) == ("main->setup", ("main->setup->halo",))
    assert growth_in_words(row).endswith(" main->setup->halo")
    both = compare_sides(side(PROGRAM), side({**PROGRAM, "main->setup": SQUARED, "main->setup->halo": 2 * P}))
    assert both.of("grown")[0].through == ()


def test_a_line_says_what_changed_and_claims_no_more_than_was_compared() -> None:
    text = since(compare_sides(side(PROGRAM), side(PROGRAM)))
    assert text.startswith("no change seen") and "nothing changed" not in text
    assert since(compare_sides(side(PROGRAM), side({**PROGRAM, "main->setup": SQUARED}))) == (
        "changed since version: main->setup (basic_blocks, p → p^2, faster in p)"
    )


def test_operations_of_mpi_that_came_or_went_are_a_change() -> None:
    barrier = "main->solve->MPI_Barrier"
    before, after = side(PROGRAM), side({**PROGRAM, barrier: 0 * P})
    assert compare_sides(before, after).operations == compare_sides(after, before).operations == (barrier,)
    (broken,) = broken_by(compare_sides(before, after), [Condition("counts")])
    assert broken.call_path == barrier
    moved = side({**PROGRAM, "main->setup->MPI_Barrier": 0 * P})
    assert not compare_sides(after, moved).operations
