"""Mistakes about Score-P that a check finds: in the file alone, and by asking the installation."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from buran.campaign.load import load_campaign
from buran.campaign.plan import Mode
from buran.cli import main
from buran.errors import Exit
from buran.plugins.scorep.checks import OVERWRITTEN

CAMPAIGN: dict[str, Any] = {
    "name": "small",
    "program": {"source": ".", "build": "make MPICC={mpicc}", "binary": "program", "run": "{binary} {n}"},
    "parameters": {"p": {"role": "ranks", "values": [1, 2]}, "n": {"role": "size", "values": [20, 40]}},
    "backend": "scorep",
}
# As version 8.4 prints them.
HELP = """
This is the Score-P instrumentation tool. The usage is:
scorep <options> <original command>

Common options are:
  --help, -h      Show help output. Does not execute any other command.
  -v, --verbose[=<value>] Specifies the verbosity level. The following
                  0 = No output
  --thread=<paradigm>[:<variant>]
                  Possible paradigms and variants are:
              none
                  No thread support.
              omp:opari2
                  OpenMP support using thread tracking via ancestry functions
              pthread
                  Pthread support using thread tracking via library wrapping.
  --mpp=<paradigm>[:<variant>]
              none
              mpi
  --user          Enables user instrumentation.
  --nouser        Disables user instrumentation.
  --opencl[:<wrap-mode>]
                  Enables OpenCL instrumentation.
"""
SUMMARY = "      Compiler instrumentation: yes\n        C:     gcc_plugin\n        C++:   gcc_plugin\n"
PAPI_AVAIL = "    Name        Code    Avail Deriv Description\nPAPI_TOT_INS  0x80000032  No    No   Instructions\n"


def write(folder: Path, **changes: Any) -> str:
    (folder / "program.c").touch()
    file = folder / "campaign.yaml"
    file.write_text(yaml.safe_dump({**CAMPAIGN, **changes}))
    return str(file)


def install(folder: Path, name: str, says: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\ncat <<'END'\n{says}\nEND\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder at the front of a PATH without another Score-P."""
    folder = tmp_path / "bin"
    folder.mkdir()
    others = [word for word in os.environ["PATH"].split(":") if not (Path(word) / "scorep").exists()]
    monkeypatch.setenv("PATH", ":".join([str(folder), *others]))
    return folder


@pytest.fixture
def installed(tools: Path) -> Path:
    for name, says in (("scorep", f"Score-P 8.4\n{HELP}"), ("scorep-info", SUMMARY), ("scorep-mpicc", "")):
        install(tools, name, says)
    return tools


def mistakes(capsys: pytest.CaptureFixture[str], file: str) -> dict[str, str | None]:
    """Return the hints of a check by the keys they are about."""
    code = main(["check", "--json", file])
    found = json.loads(capsys.readouterr().out)
    assert code == (Exit.DONE if found["valid"] else Exit.USAGE)
    assert all(each["file"] and each["line"] for each in found.get("mistakes", ()))
    return {each["key"]: each["hint"] for each in found.get("mistakes", ())}


@pytest.mark.parametrize(
    ("changes", "key", "hint"),
    [
        ({"backend": "embedded", "scorep": {"options": "--user"}}, "scorep", "backend: scorep"),
        ({"refinement": {"start_threshold": "unique-median"}}, "refinement.start_threshold", "unique_median"),
        ({"scorep": {"options": "--usr"}}, "scorep.options", "--user"),
        ({"scorep": {"options": "--user --thread=opm"}}, "scorep.options", "omp"),
        ({"scorep": {"options": "--mpp=shmem"}}, "scorep.options", None),
    ],
)
def test_a_mistake_is_named_with_its_key(
    changes: dict[str, Any],
    key: str,
    hint: str | None,
    installed: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = mistakes(capsys, write(tmp_path, **changes))
    assert found.keys() == {key}
    assert found[key] is None if hint is None else hint in str(found[key])


def test_a_threshold_may_be_a_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", write(tmp_path, refinement={"start_threshold": "most"})])
    assert "half_of_largest" in capsys.readouterr().err


@pytest.mark.parametrize("options", ["--user --thread=omp", "--thread=omp:opari2 -v --opencl:runtime", ""])
def test_right_options_pass(options: str, installed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mistakes(capsys, write(tmp_path, scorep={"options": options})) == {}


@pytest.mark.parametrize(
    ("papi", "metric", "hint"),
    [
        ("no", "PAPI_TOT_INS", "perf"),
        ("yes, using", "PAPI_TOT_INST", "PAPI_TOT_INS"),
        ("yes, using", "PAPI_TOT_INS", None),
        ("no", "instructions", None),
        (None, "PAPI_ANYTHING", None),
    ],
)
def test_a_metric_of_papi_is_asked_for_where_that_can_be(
    papi: str | None,
    metric: str,
    hint: str | None,
    installed: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if papi is not None:
        install(installed, "scorep-info", f"{SUMMARY}    PAPI support:             {papi}")
        install(installed, "papi_avail", PAPI_AVAIL)
    found = mistakes(capsys, write(tmp_path, scorep={"effort_metric": metric}))
    assert found.keys() == ({"scorep.effort_metric"} if hint else set())
    assert hint is None or hint in str(found["scorep.effort_metric"])
    if hint:
        assert main(["run", str(tmp_path / "campaign.yaml")]) == Exit.USAGE
        assert not list(tmp_path.glob("results/*/store/*"))


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("SCOREP_TOTAL_MEMORY", "process_memory_mb"),
        ("SCOREP_FILTERING_FILE", "keep"),
        ("SCOREP_METRIC_PAPI", "effort_metric"),
        ("SCOREP_WRAPPER_INSTRUMENTER_FLAGS", "options"),
        ("SCOREP_MPI_ENABLE_GROUPS", None),  # is handed on
    ],
)
def test_variables_that_are_overwritten(
    variable: str, hint: str | None, installed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environments = {"local": {"launcher": "auto", "variables": {variable: "1"}}}
    found = mistakes(capsys, write(tmp_path, environments=environments))
    assert found.keys() == ({f"environments.local.variables.{variable}"} if hint else set())
    assert all(str(hint) in str(text) for text in found.values())
    assert mistakes(capsys, write(tmp_path, environments=environments, backend="embedded")) == {}


@pytest.mark.mpi
def test_all_variables_that_are_overwritten_are_known(installed: Path, tmp_path: Path) -> None:
    from buran.measurement.backends.base import SYSTEMS

    backend = SYSTEMS.load("scorep").open(load_campaign(Path(write(tmp_path))), tmp_path)
    set_by_us = {**backend.run_environment(Mode.TIME, tmp_path), **backend.build_environment(Mode.TIME, None)}
    assert {name for name in set_by_us if name.startswith("SCOREP_")} == set(OVERWRITTEN)


def test_a_missing_score_p_is_an_error_after_the_summary(
    tools: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path, scorep={"options": "--whatever", "effort_metric": "PAPI_ANY"})
    assert main(["check", file]) == Exit.ENVIRONMENT
    shown = capsys.readouterr()
    assert "campaign:" in shown.out and "Score-P" in shown.err and "next:" in shown.err
    assert main(["check", write(tmp_path, backend="embedded")]) == Exit.DONE
