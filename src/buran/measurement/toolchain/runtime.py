"""Finding a toolchain and building the measurement runtime for it, once per machine."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from buran.errors import ToolError
from buran.features import natives
from buran.measurement.toolchain import mpi_operations
from buran.measurement.toolchain.installed import (
    Compiler,
    Mpi,
    clang_names,
    find_gcc,
    find_mpi,
    in_one_line,
    inspect_clang,
    inspect_gcc,
    is_gcc_name,
    run_tool,
)
from buran.measurement.toolchain.toolchain import (
    CLANG_FLAGS,
    CLANG_PLUGIN,
    EXPORTS,
    FALLBACK_FLAGS,
    GCC_FALLBACK,
    GCC_PLUGIN,
    LINK_FLAGS,
    MODES,
    WEAK,
    Toolchain,
    cache_folder,
    environment_for,
    flags_for_linking,
)

_T = TypeVar("_T")
NATIVE = Path(__file__).parents[1] / "native"
PLUGIN, FORTRAN_PLUGIN = "plugin.so", "fortran-plugin.so"
_RUNTIME_FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-fno-omit-frame-pointer")
_PLUGIN_FLAGS = ("-std=c++17", "-O1", "-fPIC", "-shared", "-fno-rtti")
_GCC_PLUGIN_FLAGS = ("-std=gnu++17", *_PLUGIN_FLAGS[1:])

FALLBACK_NOTES = (
    "No compiler plugin: every function is instrumented and the filter is applied while the program runs. "
    "Expect run times of 2 to 30 times the original in C++ programs with many small functions.",
    "Basic blocks are counted by a call in every block: effort builds take 1.5 to 4 times as long.",
    "Regions have no file and line; a function's first block is counted for its caller.",
    "For measurements with a few per cent of overhead install clang and its LLVM headers (apt install clang-16 "
    "llvm-16-dev), or gcc's headers for plugins (apt install gcc-12-plugin-dev, for gcc 12).",
)


def find_toolchain(*, compiler: str = "auto", mpi: Mpi | None = None) -> Toolchain:
    """Find compiler and MPI of this machine and build the runtime for them, unless that is done already.

    Parameters
    ----------
    compiler
        ``auto`` (clang with its headers if there is one, else gcc), ``clang``, ``gcc`` (with its plugin if it has the
        headers), ``gcc-fallback`` (without), or the name or path of a clang or gcc.
    mpi
        By default the one that is found.

    Raises
    ------
    ToolError
        If there is no MPI, no compiler, or the runtime does not build. Says what to install.
    """
    mpi = mpi or find_mpi()
    if compiler == GCC_FALLBACK:
        return _prepare(inspect_gcc("gcc", plugin=False), mpi, ())
    if is_gcc_name(compiler):
        return _prepare_gcc(compiler, mpi, ())
    try:
        return _first_clang(compiler, lambda clang: _prepare(clang, mpi, ()))
    except ToolError as error:
        if compiler != "auto":
            raise
        return _prepare_gcc("gcc", mpi, (error.why or "",))


def check_compiler(name: str) -> None:
    """Raise `ToolError` if no compiler of that name is here, without building anything; `auto` is any."""
    if name in ("auto", GCC_FALLBACK):
        return
    if is_gcc_name(name):
        find_gcc(name)
        return
    _first_clang(name, lambda clang: clang)


def _first_clang(compiler: str, use: Callable[[Compiler], _T]) -> _T:
    """Return what is made of the first clang of that name with which it can be made; else raise `ToolError`."""
    reasons: list[str] = []
    for name in clang_names(compiler):
        try:
            return use(inspect_clang(name))
        except ToolError as error:
            reasons.append(f"{name}: {error.what}" + (f" ({error.why})" if error.why else ""))
    raise ToolError(
        "no usable clang with LLVM headers",
        why="\n".join(reasons) or "no clang in PATH",
        hint="apt install clang-16 llvm-16-dev, or set BURAN_CLANG to a clang, or use the compiler `gcc`",
    )


def _prepare_gcc(name: str, mpi: Mpi, reasons: tuple[str, ...]) -> Toolchain:
    try:
        return _prepare(inspect_gcc(name, plugin=True), mpi, reasons)
    except ToolError as error:
        return _prepare(inspect_gcc(name, plugin=False), mpi, (*reasons, in_one_line(error)))


def _prepare(compiler: Compiler, mpi: Mpi, reasons: tuple[str, ...]) -> Toolchain:
    """Return the toolchain from the cache, building it first if it is not there."""
    if mpi.in_one_process is not None:
        mpi = _for_simulation(compiler, mpi)
    kind, fortran = compiler.kind, compiler.fortran
    missing = () if mpi.in_one_process is None else (mpi.in_one_process.is_missing,)
    wrappers = mpi_operations.wrappers_for(mpi.header, mpi.mpicc, *missing)
    fingerprint = _fingerprint(compiler, mpi, wrappers)
    # Two installations of one version differ in their paths, which the description contains.
    parts = (repr(compiler), repr(mpi), _object_names(kind, mpi, ""))
    folder = cache_folder() / f"{fingerprint}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:8]}"

    described = Toolchain(
        kind=kind,
        cc=compiler.cc,
        cxx=compiler.cxx,
        compiler_version=compiler.version,
        plugin=str(folder / PLUGIN) if compiler.headers else None,
        objects={mode: tuple(str(folder / name) for name in _object_names(kind, mpi, mode)) for mode in MODES},
        mpicc=mpi.mpicc,
        mpicxx=mpi.mpicxx,
        mpiexec=mpi.mpiexec,
        mpi=mpi.flavour,
        mpi_version=mpi.version,
        notes=(*FALLBACK_NOTES, *reasons) if kind == GCC_FALLBACK else (),
        fingerprint=fingerprint,
        fc=fortran.path if fortran else None,
        fortran_version=fortran.version if fortran else None,
        fortran_plugin=_fortran_plugin(folder, compiler),
        mpifort=mpi.mpifort,
        fortran_missing=compiler.fortran_missing,
        mpi_compiling=mpi.compiling,
        mpi_linking=mpi.linking,
    )
    if not (folder / "toolchain.json").exists():
        try:
            _build_into(folder, described, compiler, mpi, wrappers)
        except ToolError as error:
            if kind != CLANG_PLUGIN or not compiler.fortran_headers:
                raise
            # If it was the other plugin's fault, C and C++ can still be measured.
            without = replace(compiler, fortran=None, fortran_headers=None, fortran_missing=in_one_line(error))
            return _prepare(without, mpi, reasons)
    return described


def _for_simulation(compiler: Compiler, mpi: Mpi) -> Mpi:
    """Return the MPI with the compiler in the place of its wrappers; raise `ToolError` if that cannot be used."""
    if compiler.kind == GCC_FALLBACK:
        hint = "apt install clang-16 llvm-16-dev, or gcc-12-plugin-dev for gcc 12"
        raise ToolError("a simulated machine needs a compiler with a plugin, which counts basic blocks", hint=hint)
    mpifort = compiler.fortran.path if compiler.fortran else None
    return replace(mpi, mpicc=compiler.cc, mpicxx=compiler.cxx, mpifort=mpifort)


def _folders() -> tuple[Path, ...]:
    """Return where sources and headers are: our own, and those of features."""
    return NATIVE, *(native.folder for native in natives())


def _fingerprint(compiler: Compiler, mpi: Mpi, wrappers: str) -> str:
    """Return a hash of what C and C++ builds are compiled with, and of what their runtime is compiled from."""
    total = hashlib.sha256()
    simulated = mpi.in_one_process
    own = (path for folder in _folders() for path in sorted(folder.iterdir()))
    for path in (*own, *((simulated.clock, simulated.library) if simulated else ())):
        if path.is_file():
            total.update(path.name.encode() + b"\0" + path.read_bytes())
    total.update(wrappers.encode())
    flags = (_RUNTIME_FLAGS, _PLUGIN_FLAGS, _GCC_PLUGIN_FLAGS, CLANG_FLAGS, FALLBACK_FLAGS, LINK_FLAGS)
    identity = [compiler.kind, compiler.version, mpi.flavour, mpi.version, flags, total.hexdigest()]
    if mpi.compiling:
        identity.append([word for word in mpi.compiling if word.startswith(("-D", "-f"))])
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]


def _fortran_plugin(folder: Path, compiler: Compiler) -> str | None:
    if not compiler.fortran_headers:
        return None
    return str(folder / (PLUGIN if compiler.kind == GCC_PLUGIN else FORTRAN_PLUGIN))


def _includes() -> list[str]:
    return [f"-I{folder}" for folder in _folders()]


def _object_names(kind: str, mpi: Mpi, mode: str) -> tuple[str, ...]:
    clock = "clock.o" if mpi.in_one_process is None else f"{mpi.in_one_process.clock.stem}.o"
    recording = ("runtime.o", "process.o", "cpu_clock.o", "counters.o", "threads.o", "dump.o")
    further = [path for folder in _folders()[1:] for path in sorted(folder.glob("*.c")) if mode == "memory"]
    common = (*recording, *(f"{path.stem}.o" for path in further), "mpi.o", clock, "mpi_fortran.o")
    hooks = ("fallback.o",) if kind == GCC_FALLBACK else ()
    if mode in ("effort", "memory") and kind != GCC_FALLBACK and mpi.in_one_process is None:
        hooks = ("heap.o",)  # the fallback's hooks ask for memory; ranks of a simulated machine are one process
    return (*common, *hooks, f"build_info-{mode}.o")


def _build_into(folder: Path, toolchain: Toolchain, compiler: Compiler, mpi: Mpi, wrappers: str) -> None:
    """Build next to the final place and rename: another process may do the same at the same time."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".building-", dir=folder.parent))
    except OSError as error:
        raise ToolError(
            "the cache folder cannot be written", where=folder.parent, why=error.strerror, hint="set BURAN_CACHE"
        ) from None
    try:
        (scratch / "mpi_wrappers.inc").write_text(wrappers, encoding="utf-8")
        _compile_all(scratch, toolchain, compiler, mpi)
        (scratch / "toolchain.json").write_text(toolchain.to_json(), encoding="utf-8")
        scratch.chmod(0o755)
        try:
            scratch.rename(folder)
        except OSError:
            if not (folder / "toolchain.json").exists():  # else another process was first
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _compile_all(scratch: Path, toolchain: Toolchain, compiler: Compiler, mpi: Mpi) -> None:
    what = "the measurement runtime does not compile"
    env = environment_for(toolchain, "vanilla")
    # Without the header that every program gets: in it, `getpid` is the rank.
    of_mpi = [word for word in toolchain.mpi_compiling if word.startswith("-I")]
    further: dict[str, Path] = {}
    if mpi.in_one_process is not None:
        of_mpi.append("-DBURAN_SIMULATED=1")
        further[mpi.in_one_process.clock.stem] = mpi.in_one_process.clock
    flags = [*_RUNTIME_FLAGS, *_includes(), f"-I{scratch}", *of_mpi]
    sources = {path.stem: path for folder in reversed(_folders()) for path in folder.glob("*.c")} | further
    for mode in MODES:
        for name in _object_names(toolchain.kind, mpi, mode):
            stem = name.removesuffix(".o").split("-")[0]
            macros = _info_macros(toolchain, mode) if name.startswith("build_info") else []
            if not (scratch / name).exists():
                run_tool(
                    [toolchain.mpicc, *flags, *macros, "-c", sources[stem], "-o", scratch / name], what=what, env=env
                )
                if name.startswith("mpi"):
                    run_tool(["objcopy", "--weaken", scratch / name, scratch / f"{WEAK}{name}"], what=what)
    if mpi.in_one_process is not None:
        library = mpi.in_one_process.library
        run_tool([toolchain.cc, "-O2", "-fPIC", "-shared", library, "-o", scratch / f"{library.stem}.so"], what=what)
    _check_profiling_interface(scratch, toolchain, env)
    shutil.copy(NATIVE / EXPORTS, scratch / EXPORTS)
    if compiler.kind == CLANG_PLUGIN:
        _build_plugin(scratch / PLUGIN, compiler.cc, compiler.cxx, compiler.headers)
    if compiler.kind == GCC_PLUGIN:
        _build_plugin(scratch / PLUGIN, compiler.cc, compiler.cxx, compiler.headers, gnu=True)
    elif compiler.fortran:
        headers = compiler.fortran_headers
        _build_plugin(scratch / FORTRAN_PLUGIN, compiler.fortran.path, compiler.cxx, headers, gnu=True)


def _check_profiling_interface(scratch: Path, toolchain: Toolchain, env: Mapping[str, str]) -> None:
    """Link a program with the MPI layer: an MPI may declare the profiling interface without having it."""
    program = scratch / "trial"
    objects = [scratch / Path(path).name for path in toolchain.objects["time"]]
    source = "#include <mpi.h>\nint main(void) { return MPI_Finalize(); }\n"
    (scratch / "trial.c").write_text(source, encoding="utf-8")
    command: list[str | Path] = [toolchain.mpicc, *toolchain.mpi_compiling, scratch / "trial.c", *objects]
    libraries = flags_for_linking(toolchain, "time") if toolchain.mpi_linking else ("-pthread", "-ldl")
    command += [*libraries, "-o", program]
    try:
        run_tool(command, what="a program does not link with the measurement runtime", env=env)
    except ToolError as error:
        if missing := re.search(r"\bPMPI_\w+", error.why or ""):
            why = f"{missing[0]} is not in its library"
            raise mpi_operations.no_profiling_interface(toolchain.mpicc, why) from None
        raise
    program.unlink()
    (scratch / "trial.c").unlink()


def _build_plugin(plugin: Path, compiler: str, cxx: str, headers: str | None, *, gnu: bool = False) -> None:
    """Build a plugin with a C++ compiler, and see that the compiler that will load it takes it."""
    if headers is None:  # the fallback
        return
    source, flags, option = (
        ("gcc_plugin.cc", _GCC_PLUGIN_FLAGS, "-fplugin") if gnu else ("llvm_plugin.cpp", _PLUGIN_FLAGS, "-fpass-plugin")
    )
    command: list[str | Path] = [cxx, *flags, *_includes(), "-isystem", headers, NATIVE / source, "-o", plugin]
    run_tool(command, what="the compiler plugin does not compile")
    # A plugin that does not load (headers of another build) must show here, not during a campaign.
    language, text = ("f95", "end\n") if "gfortran" in Path(compiler).name else ("c", "int main(void){return 0;}\n")
    trial = [compiler, "-O2", f"{option}={plugin}", "-x", language, "-S", "-o", "-", "-"]
    settings = {"BURAN_PLUGIN_MODE": "time", "BURAN_FILTER": ""}
    code = run_tool(trial, what="the compiler plugin does not load", stdin=text, env=settings)
    if "buran_objects_are_for_time" not in code:
        raise ToolError("the compiler plugin has no effect", where=compiler)


def _info_macros(toolchain: Toolchain, mode: str) -> list[str]:
    texts = {
        "COMPILER": toolchain.compiler_version,
        "MPI": f"{toolchain.mpi} {toolchain.mpi_version}",
        "KIND": toolchain.kind,
        "FINGERPRINT": toolchain.fingerprint,
    }
    macros = [f"-DBURAN_INFO_{key}={json.dumps(text)}" for key, text in texts.items()]
    counts = mode in ("effort", "memory")
    by_plugin = counts and toolchain.kind != GCC_FALLBACK
    return [
        *macros,
        f"-DBURAN_INFO_MODE={mode}",
        f"-DBURAN_INFO_COUNTS_BLOCKS={int(counts)}",
        f"-DBURAN_INFO_COUNTS_REQUIREMENTS={int(by_plugin)}",
    ]
