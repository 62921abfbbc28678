"""Energy of steps: made-up answers of sacct. What Slurm's accounting really answers is tried in tests/slurm."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence

import pytest

from buran.plugins.energy import slurm_steps
from buran.plugins.energy.slurm_steps import StepMeter, parse_steps, why_not_a_step, why_nothing_is_gathered

BOOKED = """12|RUNNING|2|
12.batch|RUNNING|1|
12.0|COMPLETED|2|400
"""
OF_THE_ARRAY = "13.0|COMPLETED|2|7000\n"  # 12 is the last task of the array 12, and 13 another


class Sacct:
    """Answers in turn, the last one again and again."""

    def __init__(self, *answers: str | int) -> None:
        self.answers = list(answers)

    def __call__(self, command: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
        assert command[0] == "sacct" and "--jobs=12" in command
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer == -1:
            return None
        if isinstance(answer, int):
            return subprocess.CompletedProcess([], answer, "", "sacct: error: Access denied")
        return subprocess.CompletedProcess([], 0, answer, "")


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(slurm_steps, "_PATIENCE_S", 0.05)
    monkeypatch.setattr(slurm_steps, "_ASK_AGAIN_S", 0.001)
    return


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize(
    ("answers", "joules", "why"),
    [
        ([BOOKED, BOOKED, BOOKED + "12.1|RUNNING|2|0\n", BOOKED + "12.1|COMPLETED|2|523\n"], 523, ""),
        ([BOOKED, BOOKED + "12.1|CANCELLED by 0|2|523\n12.2|FAILED|1|7\n"], 530, ""),
        ([BOOKED, f"{OF_THE_ARRAY}{BOOKED}12.1|COMPLETED|2|523\n"], 523, ""),
        ([BOOKED], None, "sacct has not booked the run's step"),
        (["", ""], None, "sacct has not booked the run's step"),
        ([1], None, "sacct does not report it: sacct: error: Access denied"),
        ([1, BOOKED], None, "sacct does not report it"),  # which steps came before is not known
        ([BOOKED, 1], None, "sacct does not report it"),
        ([-1], None, "sacct is missing or does not answer"),
        ([BOOKED, BOOKED + "12.1|COMPLETED|1|523\n"], None, "the run's step had 1 of its 2 nodes"),
        ([BOOKED, BOOKED + "12.1|COMPLETED|2|0\n"], None, "Slurm counted 0 J"),
        ([BOOKED, BOOKED + "12.1|COMPLETED|2|\n"], None, "sacct shows ''"),
        ([BOOKED, BOOKED + "12.1|COMPLETED|2|nan\n"], None, "sacct shows 'nan'"),
        ([BOOKED, BOOKED + "12.1|COMPLETED|2|-3\n"], None, "sacct shows '-3'"),
        ([BOOKED, BOOKED + "12.1|COMPLETED|2|18446744073709551614\n"], None, "sacct shows '184"),
    ],
)
def test_what_sacct_answers(answers: list[str | int], joules: float | None, why: str) -> None:
    meter = StepMeter("12", 2, Sacct(*answers))
    meter.sample()
    consumed = meter.read()
    assert consumed.joules == joules and consumed.why_unknown.startswith(why) and consumed.source == "slurm"


def test_ranks_that_are_no_step_have_no_energy_of_their_own() -> None:
    assert "launcher: srun" in why_not_a_step("mpiexec -n 2 ./srunner")
    assert "launcher: srun" in why_not_a_step("auto")
    assert why_not_a_step("/usr/bin/srun -n 2 ./a") == ""


def test_lines_of_sacct_that_are_no_steps_are_passed_over() -> None:
    assert list(parse_steps(f"CLUSTER: a\n{BOOKED}12.extern|RUNNING|1|3\n12.3|COMPLETED|x|3\n|||\n")) == ["12.0"]


@pytest.mark.parametrize(
    ("config", "is_gathered"),
    [
        ("AcctGatherEnergyType    = acct_gather_energy/none\n", False),
        ("AcctGatherEnergyType    = (null)\n", False),
        ("AcctGatherProfileType   = acct_gather_profile/none\n", False),
        ("AcctGatherEnergyType    = acct_gather_energy/rapl\n", True),
    ],
)
def test_what_slurm_gathers(config: str, is_gathered: bool) -> None:
    assert bool(why_nothing_is_gathered(config)) != is_gathered
