"""Campaign files for projects: by flags, and by questions in a real pseudo terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from buran.campaign.load import load_campaign
from buran.cli import main

MAKEFILE = (
    "CC = mpicc\nall: solve other\nsolve: solve.c\n\t$(CC) -O2 -o $@ solve.c\nother: solve\n\t$(CC) -o other o.c\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "my solver"
    folder.mkdir()
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "solve.c").write_text("#include <mpi.h>\nint main(void) { return 0; }\n")
    return folder


def test_without_flags_what_is_unknown_is_marked(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "campaign"
    assert main(["init", str(folder), "--no-build", "--from", str(project), "--yes"]) == 0
    text = (folder / "campaign.yaml").read_text()
    shown = capsys.readouterr()
    assert f"{text.count('# <-')} value" in shown.out and not shown.err
    assert main(["check", str(folder / "campaign.yaml")]) == 2
    shown_by_check = capsys.readouterr().err
    lines = [number for number, line in enumerate(text.splitlines(), 1) if "# <-" in line]
    assert len(lines) == 1 and f"campaign.yaml:{lines[0]}" in shown_by_check
    assert "its arguments" in shown_by_check
    (folder / "campaign.yaml").write_text(text.replace("# <-", "#"))
    campaign = load_campaign(folder / "campaign.yaml")
    assert campaign.name == "my-solver" and isinstance(campaign.source, Path)
    assert campaign.source.resolve() == project
    assert campaign.config.program.build == "make CC={mpicc}"
    assert campaign.config.program.binary == "solve" and "# proposed: or other" in text
    assert "its arguments" in text and "MPI ranks" in text
    assert campaign.config.parameters["p"].role == "ranks"
    assert main(["check", str(folder / "campaign.yaml")]) == 0


def test_a_folder_that_every_project_has_names_no_campaign(project: Path, tmp_path: Path) -> None:
    (project / "src").mkdir()
    for path in project.glob("*.c"):
        path.rename(project / "src" / path.name)
    (project / "Makefile").rename(project / "src" / "Makefile")
    words = ["--no-build", "--from", str(project / "src"), "--run", "{binary} {n}"]
    assert main(["init", str(tmp_path / "c"), *words]) == 0
    assert load_campaign(tmp_path / "c" / "campaign.yaml").name == "my-solver"


def test_flags_leave_nothing_to_fill_in(project: Path, tmp_path: Path) -> None:
    words = [
        "--name",
        "x",
        "--binary",
        "solve",
        "--ranks",
        "1,8,27",
        "--size",
        "m=1.5,2.5",
        "--size",
        "n=10,20",
        "--core-hours",
        "3",
    ]
    command = "{binary} -m {m} -n {n}"
    assert main(["init", str(tmp_path / "c"), "--no-build", "--from", str(project), "--run", command, *words]) == 0
    text = (tmp_path / "c" / "campaign.yaml").read_text()
    assert "# <-" not in text
    campaign = load_campaign(tmp_path / "c" / "campaign.yaml")
    assert campaign.name == "x" and len(campaign.points) == 12
    assert campaign.config.budget.core_hours == 3


def test_a_program_that_is_named_without_the_folder_of_the_build(tmp_path: Path) -> None:
    project = tmp_path / "solver"
    project.mkdir()
    (project / "CMakeLists.txt").write_text("project(P C)\nadd_executable(one p.c)\nadd_executable(two p.c)\n")
    (project / "p.c").write_text("#include <mpi.h>\nint main(void) { return 0; }\n")
    words = ["--no-build", "--from", str(project), "--binary", "two", "--run", "{binary} {n}"]
    assert main(["init", str(tmp_path / "c"), *words]) == 0
    assert load_campaign(tmp_path / "c" / "campaign.yaml").config.program.binary == "build/two"


def test_a_size_that_is_named_is_the_only_one(project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "campaign"
    words = ["--size", "e=1,2,4", "--ranks", "1,2", "--no-build", "--yes"]
    assert main(["init", str(folder), "--from", str(project), *words]) == 0
    written = yaml.safe_load((folder / "campaign.yaml").read_text())
    assert set(written["parameters"]) == {"p", "e"} and written["program"]["run"] == "{binary} {e}"


def test_a_number_of_steps_may_get_its_role(project: Path, tmp_path: Path) -> None:
    command = "{binary} {n} {steps}"
    assert main(["init", str(tmp_path / "c"), "--no-build", "--from", str(project), "--run", command]) == 0
    text = (tmp_path / "c" / "campaign.yaml").read_text()
    assert [line.split(":")[0].strip() for line in text.splitlines() if "role: steps" in line] == ["steps"]


def test_a_program_without_mpi_has_no_ranks(project: Path, tmp_path: Path) -> None:
    (project / "solve.c").write_text("int main(void) { return 0; }\n")
    (project / "Makefile").write_text(MAKEFILE.replace("mpicc", "gcc"))
    assert main(["init", str(tmp_path / "c"), "--no-build", "--from", str(project), "--run", "{binary} {n}"]) == 0
    campaign = load_campaign(tmp_path / "c" / "campaign.yaml")
    assert list(campaign.parameters) == ["n"] and campaign.ranks(campaign.points[0]) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--point", "p=x"], "--point 'p=x' is not understood"),
        (["--size", "n"], "--size 'n' is not understood"),
        (["--run", "{binary} in", "--point", "n=8"], "has no {n}"),
        (["--size", "n=1,x"], "at least two different positive numbers"),
        (["--from", "nothere"], "name the folder with the program's sources"),
        (["--ranks", "4"], "at least two different positive numbers"),
        (["--size", "n=-1,2"], "at least two different positive numbers"),
    ],
)
def test_wrong_flags_are_named(
    words: list[str], said: str, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(tmp_path / "c"), "--no-build", "--from", str(project), *words]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


def test_mistakes_in_what_was_said_are_shown_at_once(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(tmp_path / "c"), "--no-build", "--from", str(project), "--run", "solve {n}"]) == 0
    assert "{binary}" in capsys.readouterr().err


def test_grids_and_a_point_of_interest_need_no_edit(project: Path, tmp_path: Path) -> None:
    command = "{binary} -g {px} {py} -n {=n * px} -s {s}"
    words = ["--run", command, "--point", "p=64,n=60,s=1.5", "--size", "s=0.5,1"]
    assert main(["init", str(tmp_path / "c"), "--no-build", "--from", str(project), *words]) == 0
    campaign = load_campaign(tmp_path / "c" / "campaign.yaml")
    assert sorted(campaign.parameters) == ["n", "p", "s"]
    assert sorted({point["n"] for point in campaign.points}) == [10, 20, 30, 40, 50]
    assert dict(campaign.target) == {"n": 60, "p": 64, "s": 1.5}
    assert campaign.run_command({"p": 6, "n": 10, "s": 1}, "x", "y") == ["x", "-g", "3", "2", "-n", "30", "-s", "1"]


def answered(folder: Path, answers: list[str], *words: str) -> str:
    """Run `buran init` in a pseudo terminal and answer its questions one by one."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "buran.cli", "init", str(folder), *words]
    with subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower) as process:
        os.close(follower)
        out, waiting = b"", list(answers)
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:
                break
            out += part
            if out.endswith(b": ") and waiting:
                os.write(leader, (waiting.pop(0) + "\n").encode())
        os.close(leader)
    assert process.returncode == 0, out.decode()
    assert not waiting, out.decode()
    return out.decode()


def test_on_a_terminal_it_asks(project: Path, tmp_path: Path) -> None:
    answers = [str(project), "other", "{binary} {cells}", "1", "1,2", "", "4"]
    shown = answered(tmp_path / "c", answers, "--no-build")
    assert "one of solve, other [solve]" in shown
    assert "two different" in shown  # of the answer "1", and it asks again
    campaign = load_campaign(tmp_path / "c" / "campaign.yaml")
    assert campaign.config.program.binary == "other" and campaign.config.program.run == "{binary} {cells}"
    assert sorted(campaign.parameters) == ["cells", "p"]
    assert sorted({point["cells"] for point in campaign.points}) == [16, 32, 64, 128, 256]
    assert campaign.config.budget.core_hours == 4


def test_on_a_terminal_enter_is_enough(project: Path, tmp_path: Path) -> None:
    answered(tmp_path / "a", [""])
    assert "path/to/sources" in (tmp_path / "a" / "campaign.yaml").read_text()
    answered(tmp_path / "b", ["", "", "", "", ""], "--no-build", "--from", str(project))
    assert load_campaign(tmp_path / "b" / "campaign.yaml").config.program.binary == "solve"


STEPPING = """#include <stdio.h>
#include <stdlib.h>
static double step(int n, double x) {
    for (int i = 0; i < n * n; i++) x = x * 0.5 + i;
    return x;
}
int main(int argc, char **argv) {
    int n = atoi(argv[1]), steps = atoi(argv[2]);
    double x = argc;
    for (int i = 0; i < steps && i < LAST; i++) x = step(n, x);
    printf("%g\\n", x);
    return 0;
}
"""


@pytest.mark.slow
@pytest.mark.mpi
@pytest.mark.parametrize(("last", "said"), [("1000", "as counts at 10, 20, 30 are linear"), ("25", "not linear: ")])
def test_counts_tell_whether_a_number_of_steps_repeats_work(
    last: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "stepping"
    project.mkdir()
    (project / "Makefile").write_text(f"CC = gcc\nstepping: s.c\n\t$(CC) -O1 -DLAST={last} -o $@ s.c\n")
    (project / "s.c").write_text(STEPPING)
    words = ["--run", "{binary} {n} {steps}", "--size", "n=20,40", "--size", "steps=100,200", "--yes"]
    assert main(["init", str(tmp_path / "c"), "--from", str(project), *words]) == 0
    assert "not counted" not in capsys.readouterr().out
    text = (tmp_path / "c" / "campaign.yaml").read_text()
    (line,) = [line for line in text.splitlines() if line.strip().startswith("steps: ")]
    assert said in line and ("role: steps, value: 200" in line) == (last == "1000")
    assert load_campaign(tmp_path / "c" / "campaign.yaml").config.parameters["steps"].role == "size"


def test_a_program_that_is_not_built_leaves_what_the_name_says(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "solve.c").write_text("no program\n")
    command = ["--run", "{binary} {n} {steps}"]
    assert main(["init", str(tmp_path / "c"), "--from", str(project), *command, "--yes"]) == 0
    assert "not counted: " in capsys.readouterr().out
    assert "role: steps, value: 256}, if each" in (tmp_path / "c" / "campaign.yaml").read_text()
