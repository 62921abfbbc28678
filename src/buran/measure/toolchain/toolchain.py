"""Finding a compiler and an MPI, and building the measurement runtime for them, once per machine."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from buran.errors import FormatError, ToolError, UsageError
from buran.measure.toolchain import gnu, mpi_wrappers
from buran.measure.toolchain.tool import find_tool, run_tool

NATIVE = Path(__file__).parents[1] / "native"
MODES = ("time", "effort")
NEWEST_CLANG, OLDEST_CLANG = 25, 14

EXPORTS = "exports.list"  # symbols of a program that shared libraries may need
PLUGIN, FORTRAN_PLUGIN = "plugin.so", "fortran-plugin.so"
WEAK = "weak-"  # objects of the MPI layer for programs that may be without an MPI

CLANG_PLUGIN = "clang-plugin"
GCC_PLUGIN = "gcc-plugin"
GCC_FALLBACK = "gcc-fallback"

_RUNTIME_FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-fno-omit-frame-pointer")
_PLUGIN_FLAGS = ("-std=c++17", "-O1", "-fPIC", "-shared", "-fno-rtti")
_CLANG_FLAGS = ("-gline-tables-only",)
_FALLBACK_FLAGS = (
    "-finstrument-functions",
    "-finstrument-functions-exclude-file-list=/usr/include/,/usr/lib/,/c++/,/include/openmpi/",
    "-fno-omit-frame-pointer",
)
_LINK_FLAGS = ("-Wl,--build-id=sha1", "-pthread", "-ldl")

FALLBACK_NOTES = (
    "No compiler plugin: every function calls its hooks and the filter is applied while the program runs. "
    "Expect run times of 2 to 30 times the original in C++ programs with many small functions.",
    "Basic blocks are counted by a call in every block: effort builds take 1.5 to 4 times as long.",
    "Regions have no file and line; a function's first block is counted for its caller.",
    "For measurements with a few per cent of overhead install clang and its LLVM headers (apt install clang-16 "
    "llvm-16-dev), or gcc's headers for plugins (apt install gcc-12-plugin-dev, for gcc 12).",
)
NO_MPI_HINT = "install an MPI: apt install libopenmpi-dev openmpi-bin, or: pip install mpich"


@dataclass(frozen=True)
class Toolchain:
    """Compiler, MPI and the measurement runtime that was built for both.

    Attributes
    ----------
    kind
        ``clang-plugin``, ``gcc-plugin``, or ``gcc-fallback`` where headers for plugins are missing.
    cc, cxx
        Paths of the compilers.
    compiler_version
        First line of what the compiler says of itself.
    plugin
        Path of the compiler plugin; None for the fallback.
    objects
        By mode (``time``, ``effort``): object files that go on the link line of a program.
    mpicc, mpicxx, mpiexec
        Paths of the MPI's compiler wrappers and launcher.
    mpi
        ``openmpi`` or ``mpich`` (and what derives from it).
    mpi_version
        As in its header, ``4.1.4``.
    notes
        What is missing on this machine, and what that costs.
    fingerprint
        Hash of compiler version, MPI version and of what the runtime and the plugin are compiled from; a part of every
        build's identity. The same on every machine that has the same.
    fc
        Path of gfortran; None if Fortran programs cannot be measured here.
    fortran_version
        First line of what it says of itself; a part of the identity of builds that use it.
    fortran_plugin
        Its compiler plugin; None for the fallback.
    mpifort
        The MPI's compiler wrapper for Fortran; None if it has none.
    fortran_missing
        Why there is no `fc`; empty if there is one.
    """

    kind: str
    cc: str
    cxx: str
    compiler_version: str
    plugin: str | None
    objects: Mapping[str, tuple[str, ...]]
    mpicc: str
    mpicxx: str
    mpiexec: str
    mpi: str
    mpi_version: str
    notes: tuple[str, ...]
    fingerprint: str
    fc: str | None = None
    fortran_version: str | None = None
    fortran_plugin: str | None = None
    mpifort: str | None = None
    fortran_missing: str = ""

    def to_json(self) -> str:
        """Return the JSON text that `from_json` reads."""
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str | Path = "toolchain") -> Toolchain:
        """Read what `to_json` wrote; raise `FormatError` for anything else."""
        try:
            data = json.loads(text)
            data["objects"] = {mode: tuple(paths) for mode, paths in data["objects"].items()}
            data["notes"] = tuple(data["notes"])
            return cls(**data)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FormatError(
                "this is not a toolchain description",
                where=where,
                why=str(error),
            ) from None

    @classmethod
    def load(cls, path: str | Path) -> Toolchain:
        """Read a toolchain file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise ToolError("the toolchain description cannot be read", where=path, why=error.strerror) from None
        return cls.from_json(text, path)

    def save(self, path: str | Path) -> None:
        """Write the toolchain to a file."""
        Path(path).write_text(self.to_json(), encoding="utf-8")


@dataclass(frozen=True)
class Compiler:
    """A compiler pair and gfortran, with the headers for their plugins where there are any."""

    kind: str
    cc: str
    cxx: str
    version: str
    headers: str | None
    fortran: gnu.Fortran | None = None
    fortran_headers: str | None = None
    fortran_missing: str = ""


@dataclass(frozen=True)
class Mpi:
    """An MPI installation.

    Attributes
    ----------
    header
        Its ``mpi.h``, preprocessed, with the macros that it defines.
    """

    mpicc: str
    mpicxx: str
    mpiexec: str
    mpifort: str | None
    flavour: str
    version: str
    header: str = field(repr=False)


def find_toolchain(*, compiler: str = "auto") -> Toolchain:
    """Find compiler and MPI of this machine and build the runtime for them, unless that is done already.

    Parameters
    ----------
    compiler
        ``auto`` (clang with its headers if there is one, else gcc), ``clang``, ``gcc`` (with its plugin if it has the
        headers), ``gcc-fallback`` (without), or the name or path of a clang or gcc.

    Raises
    ------
    ToolError
        If there is no MPI, no compiler, or the runtime does not build. Says what to install.
    """
    mpi = _find_mpi()
    if compiler == GCC_FALLBACK:
        return _prepare(_inspect_gcc("gcc", plugin=False), mpi, ())
    if gnu.is_gcc_name(compiler):
        return _prepare_gcc(compiler, mpi, ())
    reasons: list[str] = []
    for name in _clang_names(compiler):
        try:
            return _prepare(_inspect_clang(name), mpi, ())
        except ToolError as error:
            reasons.append(f"{name}: {error.what}" + (f" ({error.why})" if error.why else ""))
    if compiler != "auto":
        raise ToolError(
            "no usable clang with LLVM headers",
            why="\n".join(reasons) or "no clang in PATH",
            hint="apt install clang-16 llvm-16-dev, or set BURAN_CLANG to a clang, or use the compiler `gcc`",
        )
    return _prepare_gcc("gcc", mpi, tuple(reasons))


def flags_for_compiling(toolchain: Toolchain, mode: str, *, fortran: bool = False) -> tuple[str, ...]:
    """Return the flags of a build mode for the C and C++ compilers, or for Fortran's.

    They stand before the user's, which so win.
    """
    if mode not in MODES:
        return ()
    if fortran and toolchain.fortran_plugin:
        return (f"-fplugin={toolchain.fortran_plugin}",)
    if toolchain.kind == GCC_PLUGIN:
        return (f"-fplugin={toolchain.plugin}",)
    if toolchain.kind == CLANG_PLUGIN:
        return (*_CLANG_FLAGS, f"-fpass-plugin={toolchain.plugin}")
    return (*_FALLBACK_FLAGS, "-fsanitize-coverage=trace-pc") if mode == "effort" else _FALLBACK_FLAGS


def runtime_objects(toolchain: Toolchain, mode: str, *, mpi: bool) -> tuple[str, ...]:
    """Return the objects that go into a program, and only there: its shared libraries use the program's.

    Without `mpi` nothing says that the program uses MPI. It may still do so through a shared library of its own, so the
    MPI layer is there, but all it needs of the MPI may be missing.
    """
    if mode not in MODES:
        return ()
    objects = [Path(path) for path in toolchain.objects[mode]]
    if not mpi:
        objects = [path.with_name(WEAK + path.name) if path.name.startswith("mpi") else path for path in objects]
    return tuple(map(str, objects))


def flags_for_linking(toolchain: Toolchain, mode: str, filter_file: str | None = None) -> tuple[str, ...]:
    """Return the options for linking a program, besides `runtime_objects`; they stand behind the user's.

    The fallback applies the filter while the program runs: there the file becomes a part of the program.
    """
    if mode not in MODES:
        return ()
    exports = Path(toolchain.objects[mode][0]).with_name(EXPORTS)
    flags = (f"-Wl,--dynamic-list={exports}", *_LINK_FLAGS)
    if toolchain.kind != GCC_FALLBACK:
        return flags
    return (*flags, "-rdynamic", *(_embedded(filter_file) if filter_file else ()))


def _embedded(filter_file: str) -> tuple[str, ...]:
    """Return linker options that put a file into the program, between two symbols that the runtime knows."""
    path = str(Path(filter_file).resolve())
    if "," in path:
        raise UsageError("the path of a filter file must not contain a comma", where=path)
    if not os.access(path, os.R_OK):
        raise UsageError("the filter file cannot be read", where=path)
    symbol = "_binary_" + re.sub(r"[^0-9A-Za-z]", "_", path)
    return (
        f"-Wl,--format=binary,{path},--format=default",
        f"-Wl,--defsym=buran_embedded_filter={symbol}_start,--defsym=buran_embedded_filter_end={symbol}_end",
        "-Wl,-z,noexecstack",
    )


def environment_for(toolchain: Toolchain, mode: str) -> dict[str, str]:
    """Return the variables that make the MPI wrappers use the toolchain's compiler in a mode."""
    variables = {
        "OMPI_CC": toolchain.cc,
        "OMPI_CXX": toolchain.cxx,
        "MPICH_CC": toolchain.cc,
        "MPICH_CXX": toolchain.cxx,
    }
    if toolchain.fc:
        variables |= {"OMPI_FC": toolchain.fc, "MPICH_FC": toolchain.fc}
    if mode in MODES:
        variables["BURAN_PLUGIN_MODE"] = mode
    return variables


def cache_folder() -> Path:
    """Return where built runtimes are kept: BURAN_CACHE, XDG_CACHE_HOME/buran or ~/.cache/buran."""
    if own := os.environ.get("BURAN_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "buran"


def _find_mpi() -> Mpi:
    mpicc = os.environ.get("BURAN_MPICC") or find_tool("mpicc")
    if not mpicc:
        raise ToolError("no MPI found", why="there is no mpicc in PATH or beside Python", hint=NO_MPI_HINT)
    folder = Path(mpicc).parent

    def here(name: str) -> str | None:
        return str(folder / name) if os.access(folder / name, os.X_OK) else None

    def beside(*names: str) -> str:
        for name in names:
            if found := here(name) or find_tool(name):
                return found
        raise ToolError("this MPI is not complete", where=mpicc, why=f"no {names[0]}", hint=NO_MPI_HINT)

    header = run_tool(
        [mpicc, "-E", "-dD", "-x", "c", "-"],
        what="the MPI compiler wrapper does not work",
        stdin="#include <mpi.h>\n",
    )
    flavour, version = _mpi_from_macros(header, mpicc)
    mpifort = here("mpifort") or here("mpif90")
    return Mpi(mpicc, beside("mpicxx", "mpic++"), beside("mpiexec", "mpirun"), mpifort, flavour, version, header)


def _mpi_from_macros(macros: str, where: str) -> tuple[str, str]:
    """Tell the MPI's flavour and version from the macros its header defines."""
    values = dict(re.findall(r"^#define (\w+) (.*)$", macros, flags=re.MULTILINE))
    if "OMPI_MAJOR_VERSION" in values:
        parts = (values[f"OMPI_{part}_VERSION"] for part in ("MAJOR", "MINOR", "RELEASE"))
        return "openmpi", ".".join(parts)
    for macro in ("MPICH_VERSION", "MVAPICH2_VERSION", "I_MPI_VERSION"):
        if macro in values:
            return "mpich", values[macro].strip('"')
    raise ToolError("unknown kind of MPI", where=where, why="neither Open MPI nor derived from MPICH", hint=NO_MPI_HINT)


def _clang_names(compiler: str) -> Iterator[str]:
    if compiler not in ("auto", "clang"):
        yield compiler
        return
    if own := os.environ.get("BURAN_CLANG"):
        yield own
        return
    for version in range(NEWEST_CLANG, OLDEST_CLANG - 1, -1):
        if shutil.which(f"clang-{version}"):
            yield f"clang-{version}"
    if shutil.which("clang"):
        yield "clang"


def _inspect_clang(name: str) -> Compiler:
    """Return the compiler pair with its LLVM headers; raise `ToolError` if something is missing."""
    path = shutil.which(name)
    if not path:
        raise ToolError("not found in PATH")
    macros = run_tool([path, "-E", "-dM", "-x", "c", "-"], what="does not work")
    found = re.search(r"#define __clang_major__ (\d+)", macros)
    if not found:
        raise ToolError("is not a clang")
    major = int(found[1])
    version = run_tool([path, "--version"], what="does not work").splitlines()[0].strip()
    binaries = Path(path).resolve().parent
    cxx = next((p for p in (binaries / "clang++", Path(path).with_name(f"clang++-{major}")) if p.exists()), None)
    if cxx is None:
        raise ToolError("has no clang++ beside it")
    configs = (
        str(binaries / "llvm-config"),
        f"llvm-config-{major}",
        f"/usr/lib/llvm-{major}/bin/llvm-config",
    )
    for config in configs:
        if not shutil.which(config):
            continue
        out = run_tool([config, "--version", "--includedir"], what="llvm-config does not work").split()
        headers = Path(out[1]) / "llvm"
        if out[0].split(".")[0] == str(major) and (headers / "Passes").is_dir():
            return _with_fortran(Compiler(CLANG_PLUGIN, path, str(cxx), version, out[1]), None)
    raise ToolError("has no LLVM headers of its version", why=f"apt install llvm-{major}-dev")


def _inspect_gcc(name: str, *, plugin: bool) -> Compiler:
    """Return gcc as it will be used; raise `ToolError` if something is missing."""
    gcc = gnu.find_gcc(name)
    headers = str(gnu.plugin_headers(gcc.cc, gcc.number)) if plugin else None
    kind = GCC_PLUGIN if plugin else GCC_FALLBACK
    return _with_fortran(Compiler(kind, gcc.cc, gcc.cxx, gcc.version, headers), gcc)


def _with_fortran(compiler: Compiler, gcc: gnu.Gcc | None) -> Compiler:
    """Add gfortran. It goes with any C compiler if it has its plugin, and without one only with the fallback."""
    try:
        fortran = gnu.find_fortran(gcc)
        headers = compiler.headers if gcc else str(gnu.plugin_headers(fortran.fc, fortran.number))
    except ToolError as error:
        return replace(compiler, fortran_missing=_reason(error))
    return replace(compiler, fortran=fortran, fortran_headers=headers)


def _reason(error: ToolError) -> str:
    """Return an error in one line, with what to do about it."""
    parts = (str(error.where) if error.where else "", error.what)
    tail = "".join(f" ({text})" for text in (error.why, error.hint) if text)
    return ": ".join(filter(None, parts)) + tail


def _prepare_gcc(name: str, mpi: Mpi, reasons: tuple[str, ...]) -> Toolchain:
    try:
        return _prepare(_inspect_gcc(name, plugin=True), mpi, reasons)
    except ToolError as error:
        return _prepare(_inspect_gcc(name, plugin=False), mpi, (*reasons, _reason(error)))


def _prepare(compiler: Compiler, mpi: Mpi, reasons: tuple[str, ...]) -> Toolchain:
    """Return the toolchain from the cache, building it first if it is not there."""
    kind, fortran = compiler.kind, compiler.fortran
    wrappers = mpi_wrappers.wrappers_for(mpi.header, mpi.mpicc)
    fingerprint = _fingerprint(compiler, mpi, wrappers)
    # Two installations of one version differ in their paths, which the description contains.
    places = (repr(compiler), repr(mpi), _object_names(kind, ""))
    folder = cache_folder() / f"{fingerprint}-{hashlib.sha256(json.dumps(places).encode()).hexdigest()[:8]}"

    described = Toolchain(
        kind=kind,
        cc=compiler.cc,
        cxx=compiler.cxx,
        compiler_version=compiler.version,
        plugin=str(folder / PLUGIN) if compiler.headers else None,
        objects={mode: tuple(str(folder / name) for name in _object_names(kind, mode)) for mode in MODES},
        mpicc=mpi.mpicc,
        mpicxx=mpi.mpicxx,
        mpiexec=mpi.mpiexec,
        mpi=mpi.flavour,
        mpi_version=mpi.version,
        notes=(*FALLBACK_NOTES, *reasons) if kind == GCC_FALLBACK else (),
        fingerprint=fingerprint,
        fc=fortran.fc if fortran else None,
        fortran_version=fortran.version if fortran else None,
        fortran_plugin=_fortran_plugin(folder, compiler),
        mpifort=mpi.mpifort,
        fortran_missing=compiler.fortran_missing,
    )
    if not (folder / "toolchain.json").exists():
        try:
            _build_into(folder, described, compiler, wrappers)
        except ToolError as error:
            if kind != CLANG_PLUGIN or not compiler.fortran_headers:
                raise
            # If it was the other plugin's fault, C and C++ can still be measured.
            without = replace(compiler, fortran=None, fortran_headers=None, fortran_missing=_reason(error))
            return _prepare(without, mpi, reasons)
    return described


def _fingerprint(compiler: Compiler, mpi: Mpi, wrappers: str) -> str:
    """Return a hash of what C and C++ builds are compiled with, and of what their runtime is compiled from."""
    total = hashlib.sha256()
    for path in sorted(NATIVE.iterdir()):
        if path.is_file():
            total.update(path.name.encode() + b"\0" + path.read_bytes())
    total.update(wrappers.encode())
    flags = (_RUNTIME_FLAGS, _PLUGIN_FLAGS, gnu.PLUGIN_FLAGS, _CLANG_FLAGS, _FALLBACK_FLAGS, _LINK_FLAGS)
    identity = [compiler.kind, compiler.version, mpi.flavour, mpi.version, flags, total.hexdigest()]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]


def _fortran_plugin(folder: Path, compiler: Compiler) -> str | None:
    if not compiler.fortran_headers:
        return None
    return str(folder / (PLUGIN if compiler.kind == GCC_PLUGIN else FORTRAN_PLUGIN))


def _object_names(kind: str, mode: str) -> tuple[str, ...]:
    common = ("runtime.o", "process.o", "clock.o", "counters.o", "threads.o", "dump.o", "mpi.o", "mpi_fortran.o")
    hooks = ("fallback.o",) if kind == GCC_FALLBACK else ()
    return (*common, *hooks, f"build_info-{mode}.o")


def _build_into(folder: Path, toolchain: Toolchain, compiler: Compiler, wrappers: str) -> None:
    """Build beside the final place and rename: another process may do the same at the same time."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".building-", dir=folder.parent))
    except OSError as error:
        raise ToolError(
            "the cache folder cannot be written",
            where=folder.parent,
            why=error.strerror,
            hint="set BURAN_CACHE",
        ) from None
    try:
        (scratch / "mpi_wrappers.inc").write_text(wrappers, encoding="utf-8")
        _compile_all(scratch, toolchain, compiler)
        (scratch / "toolchain.json").write_text(toolchain.to_json(), encoding="utf-8")
        scratch.chmod(0o755)
        try:
            scratch.rename(folder)
        except OSError:
            if not (folder / "toolchain.json").exists():  # else another process was first
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _compile_all(scratch: Path, toolchain: Toolchain, compiler: Compiler) -> None:
    what = "the measurement runtime does not compile"
    env = environment_for(toolchain, "vanilla")
    flags = [*_RUNTIME_FLAGS, f"-I{NATIVE}", f"-I{scratch}"]
    for mode in MODES:
        for name in _object_names(toolchain.kind, mode):
            source = NATIVE / f"{name.removesuffix('.o').split('-')[0]}.c"
            macros = _info_macros(toolchain, mode) if name.startswith("build_info") else []
            if not (scratch / name).exists():
                run_tool([toolchain.mpicc, *flags, *macros, "-c", source, "-o", scratch / name], what=what, env=env)
                if name.startswith("mpi"):
                    run_tool(["objcopy", "--weaken", scratch / name, scratch / f"{WEAK}{name}"], what=what)
    _check_profiling_interface(scratch, toolchain, env)
    shutil.copy(NATIVE / EXPORTS, scratch / EXPORTS)
    if compiler.kind == CLANG_PLUGIN:
        _build_clang_plugin(scratch / PLUGIN, compiler)
    if compiler.kind == GCC_PLUGIN:
        gnu.build_plugin(compiler.cc, compiler.cxx, Path(compiler.headers or ""), NATIVE, scratch / PLUGIN)
    elif compiler.fortran and compiler.fortran_headers:
        headers = Path(compiler.fortran_headers)
        gnu.build_plugin(compiler.fortran.fc, compiler.cxx, headers, NATIVE, scratch / FORTRAN_PLUGIN)


def _check_profiling_interface(scratch: Path, toolchain: Toolchain, env: Mapping[str, str]) -> None:
    """Link a program with the MPI layer: an MPI may declare the profiling interface without having it."""
    program = scratch / "trial"
    objects = [scratch / name for name in _object_names(toolchain.kind, "time")]
    source = "#include <mpi.h>\nint main(void) { return MPI_Finalize(); }\n"
    (scratch / "trial.c").write_text(source, encoding="utf-8")
    command: list[str | Path] = [
        toolchain.mpicc,
        scratch / "trial.c",
        *objects,
        "-pthread",
        "-ldl",
        "-o",
        program,
    ]
    try:
        run_tool(command, what="a program does not link with the measurement runtime", env=env)
    except ToolError as error:
        if missing := re.search(r"\bPMPI_\w+", error.why or ""):
            raise mpi_wrappers.no_profiling_interface(toolchain.mpicc, f"{missing[0]} is not in its library") from None
        raise
    program.unlink()
    (scratch / "trial.c").unlink()


def _build_clang_plugin(plugin: Path, compiler: Compiler) -> None:
    flags = [*_PLUGIN_FLAGS, f"-I{NATIVE}", "-isystem", str(compiler.headers)]
    what = "the compiler plugin does not compile"
    run_tool([compiler.cxx, *flags, NATIVE / "llvm_plugin.cpp", "-o", plugin], what=what)
    # A plugin that does not load (headers of another build) must show here, not during a campaign.
    trial = ["-O2", f"-fpass-plugin={plugin}", "-x", "c", "-S", "-o", "-", "-"]
    what = "the compiler plugin does not load"
    code = run_tool([compiler.cc, *trial], what=what, stdin="int main(void){return 0;}\n")
    if "buran_objects_are_for_time" not in code:
        raise ToolError("the compiler plugin has no effect", where=compiler.cc)


def _info_macros(toolchain: Toolchain, mode: str) -> list[str]:
    texts = {
        "COMPILER": toolchain.compiler_version,
        "MPI": f"{toolchain.mpi} {toolchain.mpi_version}",
        "KIND": toolchain.kind,
        "FINGERPRINT": toolchain.fingerprint,
    }
    macros = [f"-DBURAN_INFO_{key}={json.dumps(text)}" for key, text in texts.items()]
    return [*macros, f"-DBURAN_INFO_MODE={mode}", f"-DBURAN_INFO_COUNTS_BLOCKS={int(mode == 'effort')}"]
