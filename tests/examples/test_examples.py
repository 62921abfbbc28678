"""The example programs compute what they say, on any number of ranks, and refuse nonsense."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from example_programs import EXAMPLES, NAMES, Run, launch

pytestmark = pytest.mark.mpi

ARGUMENTS = {"stencil": (5, 10), "sweep": (4, 3, 2), "treesort": (100,)}


def number_after(text: str, label: str) -> float:
    found = re.search(re.escape(label) + r" ([-+.e\d]+)", text)
    assert found, text
    return float(found[1])


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("name", NAMES)
def test_verifies_itself(run: Run, name: str, ranks: int) -> None:
    done = run(name, ranks, *ARGUMENTS[name])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verification: passed" in done.stdout
    assert f"{name}: {ranks} ranks" in done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_smallest_arguments(run: Run, name: str) -> None:
    done = run(name, 3, *(1 for _ in ARGUMENTS[name]))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("ranks", [6, 8])
@pytest.mark.parametrize("name", NAMES)
def test_more_ranks_than_cores(run: Run, name: str, ranks: int) -> None:
    assert run(name, ranks, *ARGUMENTS[name]).returncode == 0


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("stencil", ()),
        ("stencil", (8,)),
        ("stencil", (0, 10)),
        ("stencil", (8, -1)),
        ("stencil", ("8x", 10)),
        ("stencil", (1001, 1)),
        ("stencil", (8, 10, 1)),
        ("sweep", (8,)),
        ("sweep", (8, 0)),
        ("sweep", (8, 4, "many")),
        ("sweep", (500, 1000000)),
        ("treesort", ()),
        ("treesort", ("",)),
        ("treesort", (0,)),
        ("treesort", ("99999999999999999999",)),
    ],
)
def test_wrong_arguments(run: Run, name: str, arguments: tuple[object, ...]) -> None:
    done = run(name, None, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"usage: {name} n")
    assert done.stdout == ""


@pytest.mark.parametrize("name", NAMES)
def test_wrong_arguments_are_reported_once(run: Run, name: str) -> None:
    done = run(name, 2)
    assert done.returncode == 2
    assert done.stderr.count("usage:") == 1


def test_stencil_does_not_depend_on_the_distribution(run: Run) -> None:
    alone = run("stencil", 1, 8, 12).stdout
    spread = run("stencil", 8, 4, 12).stdout
    for solver in ("jacobi", "cg"):
        assert number_after(spread, solver) == pytest.approx(number_after(alone, solver), rel=1e-9)


def test_sweep_does_not_depend_on_the_distribution(run: Run) -> None:
    alone = run("sweep", 1, 8, 2, 3).stdout
    spread = run("sweep", 4, 4, 4, 3).stdout
    assert number_after(spread, "total flux:") == pytest.approx(number_after(alone, "total flux:"), rel=1e-11)


@pytest.mark.parametrize(("ranks", "n"), [(2, 600), (3, 400), (4, 300)])
def test_treesort_does_not_depend_on_the_distribution(run: Run, ranks: int, n: int) -> None:
    def checksum(done: subprocess.CompletedProcess[str]) -> str:
        return done.stdout.split("checksum:")[1].split()[0]

    assert checksum(run("treesort", ranks, n)) == checksum(run("treesort", 1, 1200))


@pytest.mark.parametrize("ranks", [1, 4])
def test_bodies_add_up_the_same_when_mended(tmp_path: Path, built: object, ranks: int) -> None:
    found = []
    for flags in ("", "-DMENDED"):
        folder = tmp_path / f"mended{flags}"
        folder.mkdir()
        make = ["make", "-s", "-f", str(EXAMPLES / "bodies" / "Makefile"), f"CPPFLAGS={flags} -Wall -Wextra -Werror"]
        subprocess.run(make, cwd=folder, check=True)
        done = launch(folder / "bodies", ranks, 120)
        assert done.returncode == 0, done.stdout + done.stderr
        found.append(number_after(done.stdout, "energy"))
    assert found[1] == pytest.approx(found[0], rel=1e-5) and found[0] < 0


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("stencil", "alpha, direction.data(), x.data()", "0.9 * alpha, direction.data(), x.data()"),
        ("stencil", "beta, residual.data()", "1.1 * beta, residual.data()"),
        ("stencil", "u[halo_cell[k]] = buffer[k];", "u[halo_cell[k]] = 0.5 * buffer[k];"),
        ("sweep", "face_y[x + n * z] = psi;", "face_y[x + n * z] = 0.999 * psi;"),
        ("sweep", "MPI_Send(d->face_x, count,", "MPI_Send(d->face_y, count,"),
        ("treesort", "(a <= b)", "(a >= b)"),
        ("treesort", "head[run] = at < end[run] ? following : LAST;", "head[run] = following;"),
    ],
)
def test_verification_finds_a_defect(tmp_path: Path, built: object, name: str, good: str, bad: str) -> None:
    """A program whose arithmetic is spoilt must not pass its own check."""
    for file in (EXAMPLES / name).iterdir():
        if file.suffix in {".c", ".cpp"}:
            source = file.read_text()
            assert source.count(good) == 1
            (tmp_path / file.name).write_text(source.replace(good, bad))
        elif file.name == "Makefile":
            (tmp_path / file.name).write_text(file.read_text())
    subprocess.run(["make", "-s"], cwd=tmp_path, check=True)
    done = launch(tmp_path / name, 2, *{"stencil": (6, 60), "sweep": (6, 3), "treesort": (500,)}[name])
    assert done.returncode == 1, done.stdout
    assert "verification: FAILED" in done.stdout


def test_make_clean(tmp_path: Path, built: object) -> None:
    makefile = EXAMPLES / "sweep" / "Makefile"
    subprocess.run(["make", "-s", "-f", str(makefile)], cwd=tmp_path, check=True)
    assert [file.name for file in tmp_path.iterdir()] == ["sweep"]
    subprocess.run(["make", "-s", "-f", str(makefile), "clean"], cwd=tmp_path, check=True)
    assert not list(tmp_path.iterdir())
