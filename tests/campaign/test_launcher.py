from __future__ import annotations

import subprocess

import pytest

from buran.campaign.launcher import Placement, launch, resolve, under_modules, usable_cores, with_modules

COMMAND = ("./x", "a b", "3")


def test_none_leaves_the_command_alone() -> None:
    assert launch("none", COMMAND, Placement(4)).argv == COMMAND


def test_openmpi_binds_ranks_that_have_a_core() -> None:
    launched = launch("openmpi", COMMAND, Placement(4))
    assert launched.argv == ("mpirun", "-n", "4", "--map-by", "slot", "--bind-to", "core", *COMMAND)
    assert launched.variables == {}


def test_openmpi_oversubscribed_as_root() -> None:
    launched = launch("openmpi", COMMAND, Placement(8), program="/opt/mpirun", oversubscribe=True, as_root=True)
    assert launched.argv == ("/opt/mpirun", "-n", "8", "--oversubscribe", "--bind-to", "none", *COMMAND)
    assert launched.variables == {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def test_openmpi_threads_and_nodes() -> None:
    assert "slot:PE=3" in launch("openmpi", COMMAND, Placement(4, threads=3)).argv
    assert "ppr:3:node:PE=2" in launch("openmpi", COMMAND, Placement(5, threads=2, nodes=2)).argv


def test_mpich() -> None:
    argv = launch("mpich", COMMAND, Placement(6, threads=2, nodes=2)).argv
    assert argv == ("mpiexec", "-n", "6", "-ppn", "3", "-bind-to", "core:2", *COMMAND)
    argv = launch("mpich", COMMAND, Placement(6), oversubscribe=True).argv
    assert argv == ("mpiexec", "-n", "6", "-bind-to", "none", *COMMAND)


def test_srun_says_everything() -> None:
    argv = launch("srun", COMMAND, Placement(1, threads=4)).argv
    assert argv[:8] == ("srun", "-N", "1", "-n", "1", "-c", "4", "--cpu-bind=cores")
    assert argv[-3:] == COMMAND


def test_template() -> None:
    text = "run -n {ranks} -N{nodes} --per={ranks_per_node} -t {threads} {command}"
    argv = launch(text, COMMAND, Placement(5, 2, 2)).argv
    assert argv == ("run", "-n", "5", "-N2", "--per=3", "-t", "2", *COMMAND)


def test_template_with_the_command_inside_a_word() -> None:
    argv = launch("bash -c 'echo {ranks} {command}'", ("x", "a b", "$HOME"), Placement(2)).argv
    assert argv == ("bash", "-c", "echo 2 x 'a b' '$HOME'")


def test_auto_follows_the_mpi() -> None:
    assert resolve("auto", "mpich") == "mpich"
    assert resolve("srun", "mpich") == "srun"


def test_modules_are_loaded_before_and_failures_stop() -> None:
    assert with_modules("make", ()) == "make"
    assert under_modules(COMMAND, ()) == COMMAND
    define = 'module() { [ "$2" != broken ] && loaded="$*"; }; export -f module\n'
    argv = under_modules(("sh", "-c", 'echo "$0 ran"', "a b"), ("gcc/12", "x y"))
    script = define + " ".join(f"'{word}'" if "'" not in word else f'"{word}"' for word in ("true",))
    assert subprocess.run(["bash", "-c", script], check=False).returncode == 0
    good = subprocess.run(
        ["bash", "-c", define + with_modules('echo "$loaded"', ("gcc/12", "x y"))],
        capture_output=True,
        text=True,
    )
    assert good.stdout == "load gcc/12 x y\n"
    bad = subprocess.run(["bash", "-c", define + with_modules("echo on", ("broken",))], capture_output=True)
    assert bad.returncode == 1 and bad.stdout == b""
    ran = subprocess.run(["bash", "-c", define + 'exec "$@"', "bash", *argv], capture_output=True, text=True)
    assert ran.stdout == "a b ran\n"


@pytest.mark.parametrize("kind", ["openmpi", "mpich", "srun", "none"])
def test_the_command_is_always_last(kind: str) -> None:
    for oversubscribe in (False, True):
        assert launch(kind, COMMAND, Placement(2), oversubscribe=oversubscribe).argv[-3:] == COMMAND


def test_usable_cores() -> None:
    assert usable_cores() >= 1
