"""Energy of runs: real counters are on few machines, so these are made-up folders of power zones."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.measurement.schedulers.base import NONE
from buran.measurement.schedulers.slurm import SLURM
from buran.plugins.energy.consumption import NoMeter
from buran.plugins.energy.meter import FirstOf, why_no_energy
from buran.plugins.energy.powercap import FOLDER_VARIABLE, PowercapMeter, power_zones, why_no_powercap

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
    assert "is not there" in PowercapMeter().read().why_unknown
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
        assert "root alone" in consumed.why_unknown
        assert len(power_zones()) == 1


def test_the_first_meter_that_knows_tells(zones: Path) -> None:
    counter = zone(zones, "0", "package-0")
    both = FirstOf((NoMeter("Slurm gathers no energy"), PowercapMeter()))
    counter.write_text("3000000\n")
    both.sample()
    assert both.read().joules == 3
    counter.write_text("none\n")
    assert both.read().why_unknown.startswith("Slurm ")


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
