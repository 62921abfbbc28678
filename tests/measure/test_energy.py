"""Energy of runs: real counters are on few machines, so these are made-up folders of power zones and answers of sacct.

What Slurm's accounting really answers is tried in tests/slurm.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.measure.energy import FirstOf, NoMeter
from buran.measure.machine.powercap import FOLDER_VARIABLE, PowercapMeter, power_zones, why_no_energy, why_no_powercap
from buran.measure.schedulers import slurm_energy
from buran.measure.schedulers.none import NONE
from buran.measure.schedulers.slurm import SLURM
from buran.measure.schedulers.slurm_energy import StepMeter, parse_steps, why_not_a_step, why_nothing_is_gathered

RANGE_UJ = 262_143_328_850


def zone(folder: Path, number: str, name: str, energy_uj: int | str = 0) -> Path:
    made = folder / f"intel-rapl:{number}"
    made.mkdir(parents=True)
    (made / "name").write_text(f"{name}\n")
    (made / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
    (made / "energy_uj").write_text(f"{energy_uj}\n")
    return made / "energy_uj"


@pytest.fixture
def zones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


def test_packages_and_their_memory_add_up_and_parts_are_named(zones: Path) -> None:
    first, core, memory = (zone(zones, *names) for names in (("0", "package-0"), ("0:0", "core"), ("0:1", "dram")))
    second = zone(zones, "1", "package-1", 7_000_000)
    platform = zone(zones, "2", "psys")
    (zones / "intel-rapl-mmio:0").symlink_to(first.parent)  # the same counter by another way
    meter = PowercapMeter()
    for counter, shown in ((first, 10), (core, 6), (memory, 2), (second, 12), (platform, 90)):
        counter.write_text(f"{shown}000000\n")
    consumed = meter.read()
    assert consumed.joules == 10 + 2 + (12 - 7)
    assert consumed.parts == {"package-0": 10, "package-0/core": 6, "package-0/dram": 2, "package-1": 5}
    assert consumed.source == "powercap" and not consumed.why_unknown


@given(steps=st.lists(st.integers(0, 100_000_000), min_size=1, max_size=8), start=st.integers(0, RANGE_UJ - 1))
def test_a_counter_that_begins_anew_loses_nothing(steps: list[int], start: int) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER_VARIABLE, name)
        counter = zone(Path(name), "0", "package-0", start)
        meter, shown = PowercapMeter(), start
        for step in steps:
            shown = (shown + step) % RANGE_UJ
            counter.write_text(f"{shown}\n")
            meter.sample()
        consumed = meter.read()
        assert (consumed.joules or 0.0) == pytest.approx(sum(steps) / 1e6, abs=1e-9)
        assert (consumed.joules is None) == (sum(steps) == 0)  # never a silent zero


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        ("5\n", "was set back"),  # from 9 kJ: as if 253 kJ had been consumed at once
        ("nan\n", "'nan', which is no count"),
        ("-4\n", "'-4', which is no count"),
        ("", "'', which is no count"),
        ("1e9\n", "'1e9', which is no count"),
        ("٣\n", "which is no count"),
        (None, "cannot be read: No such file"),
    ],
)
def test_what_a_counter_shows_wrongly_is_no_energy(zones: Path, shown: str | None, why: str) -> None:
    counter = zone(zones, "0", "package-0", 9_000_000_000)
    meter = PowercapMeter()
    if shown is None:
        counter.unlink()
    else:
        counter.write_text(shown)
    meter.sample()
    counter.write_text("9000000001\n")  # what comes later does not mend it
    consumed = meter.read()
    assert consumed.joules is None and why in consumed.why_unknown


def test_a_machine_without_counters_says_so(zones: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zone(zones, "0", "psys")
    assert PowercapMeter().read().why_unknown == f"{zones} has no zone of a processor" == why_no_powercap()
    monkeypatch.setenv(FOLDER_VARIABLE, str(zones / "none"))
    assert "is not there (a virtual machine has none)" in PowercapMeter().read().why_unknown
    assert "is not there" in why_no_energy(NONE, "auto")
    monkeypatch.setenv(FOLDER_VARIABLE, str(zones))
    zone(zones, "1", "package-0")
    assert why_no_powercap() is None and why_no_energy(NONE, "auto") == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file that others cannot read and become another")
def test_counters_that_root_alone_reads_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        counter = zone(Path(name), "0", "package-0", 5)
        counter.chmod(0o400)
        monkeypatch.setenv(FOLDER_VARIABLE, name)
        os.seteuid(65534)
        try:
            consumed, lack = PowercapMeter().read(), why_no_powercap()
        finally:
            os.seteuid(0)
        assert consumed.joules is None and lack == consumed.why_unknown
        assert "can be read by root alone (chmod a+r" in consumed.why_unknown
        assert len(power_zones()) == 1


def test_the_first_meter_that_knows_tells(zones: Path) -> None:
    counter = zone(zones, "0", "package-0")
    both = FirstOf((NoMeter("Slurm gathers no energy"), PowercapMeter()))
    counter.write_text("3000000\n")
    both.sample()
    assert both.read().joules == 3
    counter.write_text("none\n")
    assert both.read().why_unknown.startswith("Slurm gathers no energy; ")


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
    monkeypatch.setattr(slurm_energy, "_PATIENCE_S", 0.05)
    monkeypatch.setattr(slurm_energy, "_ASK_AGAIN_S", 0.001)
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
        ([1], None, "sacct does not tell: sacct: error: Access denied"),
        ([1, BOOKED], None, "sacct does not tell"),  # which steps came before is not known
        ([BOOKED, 1], None, "sacct does not tell"),
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


def test_what_starts_ranks_decides_whether_slurm_knows_their_energy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = "AccountingStorageType = accounting_storage/slurmdbd\nAcctGatherEnergyType = acct_gather_energy/rapl\n"
    for name, text in (("scontrol", f"echo '{shown}'"), ("sacct", "exit 0")):
        command = tmp_path / name
        command.write_text(f"#!/bin/sh\n{text}\n")
        command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "none"))
    assert why_no_energy(SLURM, "srun") == ""
    assert "launcher: srun" in why_no_energy(SLURM, "openmpi")


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
