"""Whole campaigns: what is measured stays measured, whatever happens around it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from buran.profiles.experiment.read import read_experiment
from patience import PATIENCE_S
from workbench import Workbench

pytestmark = [pytest.mark.mpi]

ROOT = Path(__file__).parents[2]


def test_everything_planned_is_measured(finished: Workbench) -> None:
    state = json.loads(finished.buran("status", "campaign.yaml", "--json"))
    assert state["done"]
    assert state["failed"] == 0
    assert state["measured"] == state["runs"] == 4 * 3
    assert state["spent_core_hours"] > 0
    for name in ("report.txt", "report.json", "models.json", "experiment.jsonl", "scorep.filter"):
        assert (finished.results / "latest" / name).exists()
    assert "0 problems" in finished.buran("verify", "campaign.yaml")


def test_runs_and_builds_say_what_they_were_made_on_and_with(finished: Workbench) -> None:
    store = finished.results / "store"
    for path in store.glob("*/*/*~*/rep-*/run.json"):
        run = json.loads(path.read_text())
        assert set(run["tools"]) >= {"python", "buran", "snakemake"}
        assert run["configuration"]["ranks"] == run["point"]["p"] and run["argv"] and run["environment"]
        for state in (run["before"], run["after"]):
            assert state["cpu_mask"] and len(state["load"]) == 3
            assert {"frequencies_khz", "throttle_count", "memory_available_kib"} <= set(state)
        node = json.loads((store / "nodes" / f"{run['node']}.json").read_text())
        assert node["kernel"] and node["host"] and {"lscpu", "governor", "microcode"} <= set(node)
        if run["mode"] == "vanilla":
            assert "placement" not in run, "nothing inside the program could tell"
        else:
            assert all(place["host"] and place["cpus"] and place["ranks"] for place in run["placement"])
        build = json.loads((store / run["build"] / "build" / "run.json").read_text())
        assert build["toolchain"]["compiler"] and build["toolchain"]["mpi"] and build["flags"] == "-O2"
        assert "filter" not in build and build["modules"] == [] and "commit" in build["source"]
        assert any(name.startswith("libmpi") for name in build["libraries"]) and "LD_LIBRARY_PATH" not in build["tools"]
    page = (finished.results / "latest" / "report.html").read_text()
    assert all(f"<dt>{name}</dt>" in page for name in ("compiler", "MPI", "flags", "libraries"))
    assert build["toolchain"]["mpicc"] in page


def test_exported_trees_can_be_read_again_and_extrap_opens_them(finished: Workbench) -> None:
    tree = finished.results / "latest" / "extrap" / "effort"
    experiment = read_experiment(tree)
    assert experiment.parameters == ("p", "n")
    assert len(experiment.points) == 4
    python = os.environ.get("BURAN_EXTRAP_PYTHON")
    if not python:
        pytest.skip("the tree is readable; BURAN_EXTRAP_PYTHON names no Python with Extra-P to open it")
    command = [str(Path(python).with_name("extrap")), "--cube", str(tree), "--print", "all"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "work" in done.stdout and "basic_blocks" in done.stdout


def test_a_second_run_measures_nothing(copy: Workbench) -> None:
    before = copy.started()
    copy.buran("run", "campaign.yaml")
    assert copy.started() == before


@pytest.mark.thorough
def test_forcing_everything_measures_nothing(copy: Workbench) -> None:
    before = copy.started()
    copy.buran("run", "campaign.yaml", "--", "-F")
    assert copy.started() == before


@pytest.mark.thorough
def test_another_command_of_the_run_measures_again(copy: Workbench) -> None:
    before = copy.started()
    copy.write(program={**copy.config["program"], "run": copy.config["program"]["run"] + " 1"})
    copy.buran("run", "campaign.yaml")
    assert len(copy.started()) == 2 * len(before), "with the same builds, but no number is that of the other command"


@pytest.mark.thorough
def test_losing_the_engines_memory_measures_nothing(copy: Workbench) -> None:
    before = copy.started()
    for name in (".snakemake", "pointers", "iterations", "reports"):
        shutil.rmtree(copy.results / name)
    copy.buran("run", "campaign.yaml")
    assert copy.started() == before


@pytest.mark.thorough
def test_a_report_that_fails_leaves_the_last_one_and_is_made_again(copy: Workbench) -> None:
    """The engine removes what a rule makes before it runs, and dates what it puts back anew."""
    shown = copy.buran("report", "campaign.yaml", "--full")
    original = shown.split()[-1]  # the folder that the campaign was measured in
    folder = (copy.results / "latest").resolve()
    before = copy.started()
    (folder / "report.csv").unlink()
    (folder / "scorep.filter").unlink()
    (folder / "scorep.filter").mkdir()  # which no file takes the place of
    assert "stopped before" in copy.buran("run", "campaign.yaml", expect=3)
    assert copy.buran("report", "campaign.yaml", "--full") == shown
    (folder / "scorep.filter").rmdir()
    copy.buran("run", "campaign.yaml")
    assert (folder / "report.csv").is_file() and (folder / "scorep.filter").is_file()
    assert copy.buran("report", "campaign.yaml", "--full") == shown.replace(original, str(copy.results))
    assert copy.started() == before


def test_keys_of_the_campaign_are_not_for_the_engine(copy: Workbench) -> None:
    """They would be overlooked."""
    command = [sys.executable, "-m", "snakemake", "-n", "--snakefile", str(ROOT / "Snakefile")]
    command += ["--configfile", "campaign.yaml", "--cores", "1", "--config"]

    def said(*given: str) -> tuple[int, str]:
        done = subprocess.run([*command, *given], cwd=copy.folder, env=copy.environment, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    code, text = said("repetitions=9", "cheap_rules=here")
    assert code != 0 and "--config " in text and "repetitions" in text and "--configfile" in text
    assert said("cheap_rules=here")[0] == 0


@pytest.mark.slow
def test_plain_snakemake_does_the_same(copy: Workbench) -> None:
    before = copy.started()
    shutil.rmtree(copy.results / "reports")
    command = [sys.executable, "-m", "snakemake", "--configfile", str(copy.file)]
    done = subprocess.run(command, cwd=ROOT, env=copy.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert copy.started() == before
    assert any((copy.results / "reports").glob("*/report.txt"))


def test_a_new_value_measures_only_its_points(copy: Workbench) -> None:
    before = copy.started()
    copy.write(parameters={**copy.config["parameters"], "n": {"role": "size", "values": [20, 40, 60]}})
    copy.carry_out()
    new = sorted(set(copy.started()) - set(before))
    assert set(before) < set(copy.started())
    assert len(new) == 2 * 3
    assert all("n=60" in run for run in new)


@pytest.mark.thorough  # test_same_program tells which changes make another program
def test_a_changed_flag_measures_beside_the_old_results(copy: Workbench) -> None:
    before = copy.started()
    copy.write(program={**copy.config["program"], "flags": "-O1"})
    copy.buran("run", "campaign.yaml")
    new = set(copy.started()) - set(before)
    assert set(before) < set(copy.started())
    assert len(new) == len(before)
    assert {run.split("/")[0] for run in new}.isdisjoint(run.split("/")[0] for run in before)
    copy.write(program={**copy.config["program"], "flags": "-O2"})
    after = copy.started()
    copy.buran("run", "campaign.yaml")
    assert copy.started() == after


@pytest.mark.thorough  # the same
def test_a_changed_source_is_another_build(copy: Workbench) -> None:
    before = copy.started()
    source = copy.folder / "source" / "program.c"
    source.write_text(source.read_text().replace("(j + 1)", "(j + 2)"))
    copy.buran("run", "campaign.yaml")
    assert len(copy.started()) == 2 * len(before)


def test_remeasuring_makes_a_generation_beside_the_old(copy: Workbench) -> None:
    before = copy.started()
    copy.buran("run", "campaign.yaml", "--remeasure", "p=2,n=40", "--mark-only")
    copy.carry_out()
    new = sorted(set(copy.started()) - set(before))
    assert len(new) == 3
    assert all("n=40,p=2" in run and run.endswith("-g1") for run in new)
    assert "n=40,p=3 " in copy.buran("run", "campaign.yaml", "--remeasure", "p=3,n=40", expect=2)
    assert "--remeasure p " in copy.buran("run", "campaign.yaml", "--remeasure", "p", expect=2)


def test_verify_finds_damage_and_loss(copy: Workbench) -> None:
    (profile, *_) = sorted(copy.results.glob("store/*/*/*~*/rep-*/profile.cubex"))
    profile.chmod(0o644)
    profile.write_bytes(profile.read_bytes()[:-1])
    assert "content differs" in copy.buran("verify", "campaign.yaml", expect=1)
    shutil.rmtree(profile.parent)
    assert "is gone" in copy.buran("verify", "campaign.yaml", expect=1)


@pytest.mark.thorough
def test_counts_are_the_same_in_every_run(workbench: Workbench) -> None:
    workbench.write(
        effort_repetitions=3,
        parameters={**workbench.config["parameters"], "n": {"role": "size", "values": [20, 30, 40]}},
    )
    workbench.buran("run", "campaign.yaml")
    report = json.loads((workbench.results / "latest" / "report.json").read_text())
    assert report["unsteady"] == {}
    blocks = report["models"]["basic_blocks"]["call_paths"]
    (work,) = [each for each in blocks if each["call_path"].endswith("->work")]
    assert work["model"] is not None


@pytest.mark.slow
def test_failures_are_recorded_and_the_others_go_on(workbench: Workbench) -> None:
    """n = 13 crashes, 14 hangs, 15 writes a corrupt profile, 16 loses a rank, 17 does not build; all read a file."""
    profiles = "$BURAN_PROFILE_DIR"
    (workbench.folder / "case.txt").write_text("word\n")
    spoil = (
        f'grep -q word case.txt || exit 9; {{binary}} {{n}}; code=$?; if [ -n "{profiles}" ]; then '
        f"[ {{n}} = 15 ] && truncate -s 100 {profiles}/*; [ {{n}} = 16 ] && rm -f {profiles}/*1.*; fi; exit $code"
    )
    workbench.write(
        program={
            **workbench.config["program"],
            "build": "test {=1 if n == 17 else 0} = 0 && make MPICC={mpicc} CFLAGS='{flags}'",
            "run": f"bash -c '{spoil}'",
            "inputs": ["case.txt"],
        },
        parameters={"p": {"role": "ranks"}, "n": {"role": "size"}},
        points=[{"p": 2, "n": n} for n in (13, 14, 15, 16, 17, 20)] + [{"p": 1, "n": 20}],
        resources={"time_limit": "2 if n == 14 else 300", "points_per_job": 3},
        warmup=True,  # a first run without hooks, which spares the others where it fails
    )
    output = workbench.buran("run", "campaign.yaml", expect=1)
    state = json.loads(workbench.buran("status", "campaign.yaml", "--json", expect=1))
    reasons = {failure["what"]: failure["reason"] for failure in state["failures"]}
    assert any("n=13" in what and ("signal" in reason or "exit code" in reason) for what, reason in reasons.items())
    assert any("n=14" in what and "time limit" in reason for what, reason in reasons.items())
    assert any("time run, n=15" in what and "truncated" in reason for what, reason in reasons.items()), reasons
    assert any("time run, n=16" in what and "1 of 2 ranks" in reason for what, reason in reasons.items()), reasons
    assert any(what.startswith("build") and "build command failed" in reason for what, reason in reasons.items())
    assert "n=13" in output
    told = output.partition("the campaign goes on")[0]
    assert told.count("failed ") == 1 and "log: " in told, "the first failure is told while the others are measured"
    spared = [
        json.loads(path.read_text())["reason"] for path in workbench.results.glob("store/*/*/*/failed/*/run.json")
    ]
    why = "not started: the program fails here without instrumentation too"
    assert sum(reason.startswith(why) for reason in spared) == 6
    for failure in state["failures"]:
        assert (workbench.results / failure["log"]).is_file()
    good = [run for run in workbench.started() if "n=20" in run]
    assert len(good) == 8 and not any("failed" in run for run in good)
    before = workbench.started()
    workbench.buran("run", "campaign.yaml", expect=1)
    assert workbench.started() == before, "failures are final until a retry is asked for"


@pytest.mark.thorough
def test_a_program_without_mpi_is_said_for_what_it_is(workbench: Workbench) -> None:
    (workbench.folder / "source" / "program.c").write_text(
        '#include <stdio.h>\nvoid work(void) { puts("on my own"); }\nint main(void) { work(); return 0; }\n'
    )
    workbench.write(
        parameters={"p": {"role": "ranks"}, "n": {"role": "size"}}, points=[{"p": 2, "n": 1}, {"p": 3, "n": 2}]
    )
    output = workbench.buran("run", "campaign.yaml", expect=3)
    assert "error: no instrumented run succeeded: nothing can be modelled" in output
    assert "profiles of 1 of 2 ranks" in output and "program.build" in output
    assert output.count("for one cause, such as") == 1
    report = json.loads((workbench.results / "latest" / "report.json").read_text())
    assert report["points"][0] == 0
    (failure,) = report["failures"]
    assert failure["count"] == json.loads(workbench.buran("status", "--json", expect=1))["failed"]


@pytest.mark.thorough
def test_failed_runs_are_retried_on_request(workbench: Workbench) -> None:
    flag = workbench.folder / "broken"
    flag.touch()
    workbench.write(
        program={**workbench.config["program"], "run": f"bash -c 'test ! -e {flag} && exec {{binary}} {{n}}'"},
    )
    workbench.buran("run", "campaign.yaml", expect=3)
    flag.unlink()
    before = workbench.started()
    workbench.buran("run", "campaign.yaml", expect=3)
    assert workbench.started() == before
    workbench.buran("run", "campaign.yaml", "--retry-failed")
    assert len(workbench.started()) == 2 * len(before)


@pytest.mark.thorough  # measure/test_build_errors does without the engine
def test_no_binary_is_a_clear_error(workbench: Workbench) -> None:
    workbench.write(program={**workbench.config["program"], "build": "true {mpicc} '{flags}'"})
    output = workbench.buran("run", "campaign.yaml", expect=3)
    assert "'program' (program.binary)" in output


@pytest.mark.thorough
def test_a_failed_build_stops_the_campaign_and_is_tried_again(workbench: Workbench) -> None:
    flag = workbench.folder / "broken"
    flag.touch()
    build = f"test ! -e {flag} || {{{{ echo such is the mistake; exit 1; }}}} && {workbench.config['program']['build']}"
    workbench.write(program={**workbench.config["program"], "build": build})
    for arguments in ((), ("--retry-failed",)):
        output = workbench.buran("run", "campaign.yaml", *arguments, expect=3)
        assert output.count("the mistake") == 1
        assert not workbench.started()
    flag.unlink()
    workbench.buran("run", "campaign.yaml")
    assert workbench.started()


@pytest.mark.thorough
def test_the_budget_stops_the_campaign(workbench: Workbench) -> None:
    workbench.write(budget={"core_hours": 1e-5})
    output = workbench.buran("run", "campaign.yaml", expect=4)
    assert "budget" in output
    started = workbench.started()
    assert 0 < len(started) < 12
    workbench.write(budget={"core_hours": 10.0})
    workbench.buran("run", "campaign.yaml")
    afterwards = workbench.started()
    assert set(started) < set(afterwards) and len(set(afterwards)) == len(afterwards)
    points = {Path(run).parent.name.partition("~")[0] for run in afterwards}
    assert points == {"n=20,p=1", "n=20,p=2", "n=40,p=1", "n=40,p=2"}


def test_a_budget_below_the_first_plan_is_refused(workbench: Workbench) -> None:
    workbench.write(budget={"core_hours": 1e-5}, resources={"expected_time": 10, "time_limit": 20})
    output = workbench.buran("run", "campaign.yaml", expect=2)
    assert "budget" in output and "first plan" in output
    assert workbench.started() == []


@pytest.mark.thorough
def test_an_interrupt_keeps_what_is_finished(workbench: Workbench) -> None:
    process = start(workbench)
    wait_for_runs(workbench, 4)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130
    assert not any("small" in name for name in leftovers(workbench))
    before = finished_runs(workbench)
    workbench.buran("run", "campaign.yaml")
    assert before <= finished_runs(workbench)
    assert len(finished_runs(workbench)) == 12


@pytest.mark.slow
@pytest.mark.parametrize("moment", [0, *(pytest.param(later, marks=pytest.mark.thorough) for later in range(1, 5))])
@pytest.mark.parametrize("victim", ["controller", "everything"])
def test_killing_the_controller_loses_nothing(workbench: Workbench, moment: int, victim: str) -> None:
    """kill -9 at a random moment, of the controller alone or with all it started; then run again."""
    generator = random.Random(f"{victim} {moment}")
    sizes = {"n": {"role": "size", "values": [20, 40]}} if moment else {}  # one size is enough in `make test`
    points = 4 if moment else 2
    log = workbench.folder / "starts"
    script = (
        f"echo start $$ >> {log}; {{binary}} {'{n}' if sizes else 20} {{m}}; code=$?; echo end $$ >> {log}; exit $code"
    )
    workbench.write(
        program={**workbench.config["program"], "run": f"bash -c '{script}'"},
        parameters={"m": {"role": "size", "values": [1, 2]}, **sizes},
        resources={"ranks": 1, "time_limit": 120},
    )
    process = start(workbench)
    wait_for_runs(workbench, generator.randrange(1, 2 * points + 1))
    time.sleep(generator.random())
    if victim == "everything":
        for pid in leftovers(workbench):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    process.kill()
    process.wait()
    kept = finished_runs(workbench)
    workbench.buran("run", "campaign.yaml")
    assert kept <= finished_runs(workbench)
    assert len(finished_runs(workbench)) == 3 * points
    assert "0 problems" in workbench.buran("verify", "campaign.yaml")
    lines = [line.split() for line in log.read_text().splitlines()]
    ends = {pid: number for number, (what, pid) in enumerate(lines) if what == "end"}
    completed = [(number, ends[pid]) for number, (what, pid) in enumerate(lines) if what == "start" and pid in ends]
    assert len(completed) >= 3 * points
    assert all(end < begin for (_, end), (begin, _) in pairwise(completed)), "two runs at the same time"


def start(bench: Workbench) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        bench.command("run", "campaign.yaml"),
        cwd=bench.folder,
        env=bench.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def finished_runs(bench: Workbench) -> set[str]:
    return {run for run in bench.started() if "/failed/" not in run}


def wait_for_runs(bench: Workbench, number: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(finished_runs(bench)) < number:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def leftovers(bench: Workbench) -> list[int]:
    """Processes that work in the campaign's results folder."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if (process / "cwd").readlink().is_relative_to(bench.results):
                    found.append(int(process.name))
            except OSError:
                continue
    return found
