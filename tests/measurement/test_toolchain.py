"""Finding compiler and MPI, and building the runtime for them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from native_programs import toolchain

from buran.errors import FormatError, ToolError
from buran.measurement.toolchain import installed, mpi_operations, runtime
from buran.measurement.toolchain.runtime import find_toolchain
from buran.measurement.toolchain.toolchain import Toolchain, cache_folder


def script(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def bare_machine(tmp_path, monkeypatch):
    """A machine whose PATH holds nothing but what a test puts there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("BURAN_CACHE", str(tmp_path / "cache"))
    for name in ("BURAN_CLANG", "BURAN_MPICC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "bin" / "python"))
    return folder


def test_no_mpi(bare_machine):
    with pytest.raises(ToolError) as caught:
        find_toolchain()
    assert "pip install mpich" in str(caught.value) and "apt install" in str(caught.value)


def test_mpi_beside_python_is_found(bare_machine, tmp_path):
    beside = tmp_path / "venv" / "bin"
    beside.mkdir(parents=True)
    for name in ("mpicc", "mpicxx", "mpiexec"):
        script(beside, name, 'echo "#define MPICH_VERSION \\"5.0.2\\""')
    with pytest.raises(ToolError) as caught:
        find_toolchain()
    assert "g++" in str(caught.value.why) or "gcc" in str(caught.value.why)


def test_of_two_mpis_in_a_folder_the_parts_of_one_are_taken(bare_machine, monkeypatch):
    for ending in ("", ".mpich"):
        for name in ("mpicc", "mpicxx", "mpiexec", "mpifort"):
            script(bare_machine, f"{name}{ending}", 'echo "#define MPICH_VERSION \\"5.0.2\\""')
    monkeypatch.setenv("BURAN_MPICC", "mpicc.mpich")
    mpi = installed.find_mpi()
    assert [Path(path).name for path in (mpi.mpicc, mpi.mpicxx, mpi.mpiexec, mpi.mpifort)] == [
        "mpicc.mpich", "mpicxx.mpich", "mpiexec.mpich", "mpifort.mpich",
    ]  # fmt: skip


def test_mpi_that_does_not_work(bare_machine):
    script(bare_machine, "mpicc", "echo no licence >&2; exit 1")
    for name in ("mpicxx", "mpiexec"):
        script(bare_machine, name, "")
    with pytest.raises(ToolError, match="compiler wrapper") as caught:
        find_toolchain()
    assert "no licence" in str(caught.value)


@pytest.mark.parametrize(
    ("macros", "expected"),
    [
        (
            "#define OMPI_MAJOR_VERSION 4\n#define OMPI_MINOR_VERSION 1\n#define OMPI_RELEASE_VERSION 6\n",
            ("openmpi", "4.1.6"),
        ),
        ('#define MPICH_VERSION "5.0.2"\n#define MPICH 1\n', ("mpich", "5.0.2")),
        ('#define MVAPICH2_VERSION "2.3"\n', ("mpich", "2.3")),
    ],
)
def test_kinds_of_mpi(macros, expected):
    assert installed._mpi_from_macros(macros, "mpicc") == expected


def test_unknown_mpi():
    with pytest.raises(ToolError, match="kind of MPI"):
        installed._mpi_from_macros("#define SOMETHING 1\n", "mpicc")


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("BURAN_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "buran"
    monkeypatch.setenv("BURAN_CACHE", "/somewhere")
    assert cache_folder() == Path("/somewhere")


@pytest.mark.mpi
def test_round_trip(tmp_path):
    tools = toolchain()
    (tmp_path / "t.json").write_text(tools.to_json())
    assert Toolchain.load(tmp_path / "t.json") == tools


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"objects": 3}', '{"objects": {}, "notes": []}'])
def test_foreign_description(tmp_path, text):
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(FormatError) as caught:
        Toolchain.load(path)
    assert str(path) in str(caught.value)


@pytest.mark.mpi
def test_unusable_clang_is_named(tmp_path, monkeypatch):
    script(tmp_path, "notclang", "echo '#define __GNUC__ 12'")
    with pytest.raises(ToolError, match="no usable clang") as caught:
        find_toolchain(compiler=str(tmp_path / "notclang"))
    assert "is not a clang" in str(caught.value)
    # Automatically gcc is taken; without headers of its own with the fallback, and the notes say why.
    monkeypatch.setenv("BURAN_CLANG", str(tmp_path / "notclang"))
    monkeypatch.setenv("BURAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(runtime, "_build_into", lambda *_: None)
    monkeypatch.setattr(installed, "plugin_headers", lambda compiler: tmp_path)
    assert find_toolchain().kind == "gcc-plugin"

    def no_headers(compiler):
        raise ToolError("has no headers for compiler plugins", where=compiler.path)

    monkeypatch.setattr(installed, "plugin_headers", no_headers)
    tools = find_toolchain()
    assert tools.kind == "gcc-fallback"
    assert any("notclang: " in note for note in tools.notes)
    assert any("/gcc: " in note for note in tools.notes)


@pytest.mark.thorough
@pytest.mark.mpi
def test_cache_is_filled_once_and_by_several_at_once(tmp_path):
    environment = {**os.environ, "BURAN_CACHE": str(tmp_path / "cache")}
    code = (
        "from buran.measurement.toolchain.runtime import find_toolchain as find; print(find(compiler='gcc').to_json())"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    descriptions = {process.communicate()[0] for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(descriptions) == 1
    (folder,) = (tmp_path / "cache").iterdir()  # one result, no leftovers
    tools = Toolchain.from_json(descriptions.pop())
    for paths in tools.objects.values():
        assert all(Path(path).is_file() and Path(path).parent == folder for path in paths)
    before = folder.stat().st_mtime_ns
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True)
    assert folder.stat().st_mtime_ns == before


@pytest.mark.mpi
def test_fingerprint_follows_the_sources(tmp_path, monkeypatch):
    monkeypatch.setattr(runtime, "_build_into", lambda *_: None)
    monkeypatch.setenv("BURAN_CACHE", str(tmp_path / "cache"))
    first = find_toolchain(compiler="gcc")
    native = tmp_path / "native"
    native.mkdir()
    for path in runtime.NATIVE.iterdir():
        if path.is_file():
            (native / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(runtime, "NATIVE", native)
    assert find_toolchain(compiler="gcc").fingerprint == first.fingerprint
    with (native / "runtime.c").open("a") as file:
        file.write("/* changed */\n")
    assert find_toolchain(compiler="gcc").fingerprint != first.fingerprint


@pytest.mark.mpi
def test_fingerprint_follows_what_is_compiled(tmp_path, monkeypatch):
    monkeypatch.setattr(runtime, "_build_into", lambda *_: None)
    monkeypatch.setenv("BURAN_CACHE", str(tmp_path / "cache"))
    first = find_toolchain(compiler="gcc").fingerprint
    wrappers_for = mpi_operations.wrappers_for
    monkeypatch.setattr(mpi_operations, "wrappers_for", lambda *of: wrappers_for(*of) + "/* more */")
    assert find_toolchain(compiler="gcc").fingerprint != first
    monkeypatch.setattr(mpi_operations, "wrappers_for", wrappers_for)
    assert find_toolchain(compiler="gcc").fingerprint == first
    monkeypatch.setattr(runtime, "_RUNTIME_FLAGS", ("-O3",))
    assert find_toolchain(compiler="gcc").fingerprint != first


@pytest.mark.mpi
def test_runtime_that_does_not_compile(tmp_path, monkeypatch):
    monkeypatch.setenv("BURAN_CACHE", str(tmp_path / "cache"))
    native = tmp_path / "native"
    native.mkdir()
    for path in runtime.NATIVE.iterdir():
        if path.is_file():
            (native / path.name).write_bytes(path.read_bytes())
    (native / "mpi.c").write_text("#error this MPI is too old\n")
    monkeypatch.setattr(runtime, "NATIVE", native)
    with pytest.raises(ToolError) as caught:
        find_toolchain(compiler="gcc")
    assert "does not compile" in str(caught.value) and "too old" in str(caught.value)
    assert not list((tmp_path / "cache").iterdir())
