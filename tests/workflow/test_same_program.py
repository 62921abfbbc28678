"""Changed sources: what makes the program that was measured keeps its runs, everything else does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from buran.measurement.earlier_runs import same_program
from buran.workflow.session import Session, open_session
from workbench import Workbench

pytestmark = [pytest.mark.slow, pytest.mark.mpi]


def edit(file: Path, before: str, after: str) -> None:
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def looked_at(bench: Workbench) -> tuple[str | None, list[str]]:
    """What today's program stands for, and what was said about it."""
    session, said = open_session(bench.file), list[str]()
    target = same_program(session.target, session.layout, said.append)
    again = Session(session.campaign).target
    assert (again.id, again.stands_for) == (target.id, target.stands_for)
    return target.stands_for, said


def test_a_comment_and_a_readme_measure_nothing(copy: Workbench) -> None:
    before, report = copy.started(), (copy.results / "latest" / "report.json").read_bytes()
    edit(
        copy.folder / "source" / "program.c", "static volatile double sink;", "static volatile double sink; /* what */"
    )
    (copy.folder / "source" / "README.md").write_text("How it works\n")
    assert "run --adopt campaign.yaml" in copy.buran("status")
    assert "changed: the sources" in copy.buran("filter", "campaign.yaml")
    assert "the same program" in copy.buran("run")
    assert copy.started() == before
    assert (copy.results / "latest" / "report.json").read_bytes() == report
    assert "do not fit" not in copy.buran("status")


def changes(bench: Workbench) -> dict[str, Callable[[], object]]:
    source = bench.folder / "source"
    program = source / "program.c"
    return {
        "another constant": lambda: edit(program, "sum += (double)i / (j + 1)", "sum += (double)i / (j + 2)"),
        "a file to read": lambda: (source / "input.dat").write_text("3\n"),
        "a build that fails": lambda: edit(program, "int main(", "int main["),
    }


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("another constant", "program differs"),
        ("a file to read", "input.dat"),
        ("a build that fails", "does not build"),
    ],
)
def test_what_could_change_a_number_is_another_program(copy: Workbench, change: str, why: str) -> None:
    changes(copy)[change]()
    stands_for, (_, verdict) = looked_at(copy)
    assert stands_for is None and verdict.startswith("it is another program: ") and why in verdict


def test_code_that_compiles_to_the_same_is_the_same_program(copy: Workbench) -> None:
    edit(copy.folder / "source" / "program.c", "double sum = 0;", "double total = 0;")
    edit(copy.folder / "source" / "program.c", "sum += (", "total += (")
    edit(copy.folder / "source" / "program.c", "sink = sum;", "sink = total;")
    stands_for, said = looked_at(copy)
    assert stands_for is not None and "the same program" in said[-1]


@pytest.mark.thorough
def test_runs_are_taken_over_knowingly(copy: Workbench) -> None:
    copy.buran("run", "--adopt", expect=2)
    before = copy.started()
    copy.write(program={**copy.config["program"], "flags": "-O2 -DNOTHING"})
    assert "the flags ('-O2' then, '-O2 -DNOTHING' now)" in copy.buran("run", "--adopt", "--mark-only")
    copy.buran("run")
    assert copy.started() == before


def test_without_measurements_there_is_nothing_to_take_over(workbench: Workbench) -> None:
    assert "no finished runs" in workbench.buran("run", "--adopt", expect=2)
