"""What identifies a target: only what its builds are made of and with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from buran.campaign.layout import Layout
from buran.campaign.load import load_campaign
from buran.campaign.plan import Mode
from buran.measurement import source
from buran.measurement.target import Target, open_target
from buran.measurement.toolchain import installed, runtime
from buran.measurement.toolchain.toolchain import Toolchain


def campaign_for(folder: Path, file: str) -> Path:
    """Write a campaign with a source of one file."""
    (folder / "source").mkdir(parents=True)
    (folder / "source" / file).write_text("")
    path = folder / "campaign.yaml"
    program = {"source": "source", "build": "{mpicxx} {flags} " + file, "binary": "a.out", "run": "{binary} {n}"}
    parameters = {"n": {"role": "size", "values": [1, 2]}}
    path.write_text(
        yaml.safe_dump({"name": "x", "program": program, "parameters": parameters, "resources": {"ranks": 1}})
    )
    return path


@pytest.fixture
def no_fortran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A PATH with everything but a Fortran compiler."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in reversed(os.get_exec_path()):
        for path in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if "gfortran" not in path.name:
                (tools / path.name).unlink(missing_ok=True)
                (tools / path.name).symlink_to(path)
    monkeypatch.setenv("BURAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(runtime, "_build_into", lambda *_: None)
    return str(tools)


@pytest.mark.mpi
def test_a_compiler_that_a_build_does_not_use_may_come_and_go(
    tmp_path: Path, no_fortran: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "fortran" / "gfortran"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\nexec gcc "$@"\n')
    script.chmod(0o755)
    monkeypatch.setattr(installed, "plugin_headers", lambda compiler: tmp_path)
    files = {name: campaign_for(tmp_path / name, name) for name in ("a.cpp", "a.f90", "a.F")}

    def opened(path: str) -> dict[str, Target]:
        monkeypatch.setenv("PATH", path)
        return {name: open_target(load_campaign(file), Layout(file.parent / "r")) for name, file in files.items()}

    without, with_fortran = opened(no_fortran), opened(f"{script.parent}:{no_fortran}")
    assert without["a.cpp"].backend.description["fc"] is None
    assert with_fortran["a.cpp"].backend.description["fc"] == str(script)
    assert without["a.cpp"].id == with_fortran["a.cpp"].id
    for name in ("a.f90", "a.F"):
        assert without[name].id != with_fortran[name].id
    # Whoever builds now finds the compiler that has come, although there is a description from before.
    described = with_fortran["a.f90"].backend.build_environment(Mode.TIME, None)["BURAN_TOOLCHAIN"]
    assert Toolchain.load(described).fc == str(script)


@pytest.mark.parametrize("name", ["a.f90", "sub/b.F", "c.for", "d.F08"])
def test_fortran_is_seen_by_the_names_of_files(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.cpp").write_text("")
    assert not source.local_source(tmp_path).has_fortran
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("")
    assert source.local_source(tmp_path).has_fortran


@pytest.mark.mpi
def test_only_a_build_writes_into_results(tmp_path: Path) -> None:
    """Whoever looks at the results of another has compilers, and a folder of its own for the runtime, elsewhere."""
    campaign = load_campaign(campaign_for(tmp_path / "campaign", "program.cpp"))
    layout = Layout(tmp_path / "results")
    backend = open_target(campaign, layout).backend
    assert backend.identity and not layout.root.exists()
    environment = backend.build_environment(Mode.TIME, None)
    assert Path(environment["BURAN_TOOLCHAIN"]).parent == layout.root and Path(environment["BURAN_TOOLCHAIN"]).is_file()
