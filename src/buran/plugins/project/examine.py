"""How an existing project is built: from its Makefile, or as CMake and Meson say when they configure it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from buran.errors import ToolError, UsageError
from buran.plugins.project.configured import Configured, configured_by_cmake, configured_by_meson
from buran.plugins.project.makefile import NAMES, Makefile, flag_variables, makefile_in, read_makefile, variants_in
from buran.plugins.project.sources import CMAKE_NAMES, Language, languages, mention_mpi, sources_below

_CONFIGURE = ("configure", "autogen.sh", "bootstrap", "configure.ac", "configure.in")
CMAKE_FILE = "CMakeLists.txt"


@dataclass(frozen=True)
class Project:
    """How a project is built.

    Attributes
    ----------
    build
        Shell command with placeholders for compilers and flags.
    binaries
        What the build makes, relative to the project's folder, the likeliest first; empty where nothing was found.
    uses_mpi
        Whether anything of MPI was seen in build files or sources.
    compiler
        Key `compiler` of the campaign: another than the first choice where that cannot build it.
    alternatives
        Other ways to build it, for when the first does not work.
    failure
        Why CMake or Meson could not configure it.
    remarks
        What was found, and what a person has to look at; the latter begin with ``<-``.
    """

    folder: Path
    build: str
    binaries: tuple[str, ...]
    uses_mpi: bool
    remarks: tuple[str, ...]
    alternatives: tuple[str, ...] = ()
    compiler: str = "auto"
    failure: ToolError | None = None


def examine_project(folder: Path, system: str | None = None, makefile: Path | None = None) -> Project:
    """Find out how a project is built.

    Parameters
    ----------
    system
        ``cmake``, ``meson``, ``autotools`` or ``make`` where a project has several; by default the first that it has.
    makefile
        Which one, relative to `folder`, where it has several.

    Raises
    ------
    UsageError
        There is no such folder, or nothing in it says how it is built.
    """
    if not folder.is_dir():
        why = "it is a file" if folder.exists() else "nothing has this name"
        raise UsageError(
            "there is no such folder", where=folder, why=why, hint="name the folder with the program's sources"
        )
    try:
        if makefile is not None:
            return _with_make(folder, _named_makefile(folder, makefile))
        makefile = makefile_in(folder)
        if (folder / CMAKE_FILE).is_file() and system in (None, "cmake"):
            return _with_cmake(folder, folder, both=makefile is not None)
        below = _cmake_below(folder)
        if system == "cmake" and below is None:
            raise UsageError(f"there is no {CMAKE_FILE}", where=folder)
        if (folder / "meson.build").is_file() and system in (None, "meson"):
            return _with_meson(folder)
        if system != "make" and (system == "autotools" or makefile is None):
            configure = next((folder / name for name in _CONFIGURE if (folder / name).is_file()), None)
            if configure is not None:
                return _with_autotools(folder, configure.name)
        if system in ("meson", "autotools"):
            raise UsageError(f"there is nothing of {system}", where=folder)
        if below is not None and (system == "cmake" or (system is None and makefile is None)):
            return _with_cmake(folder, below, both=False)
        return _with_make(folder, makefile or _makefile_below(folder))
    except OSError as error:
        raise UsageError("a project's file cannot be read", where=error.filename, why=error.strerror) from None


def _named_makefile(folder: Path, name: Path) -> Path:
    path = makefile_in(folder / name) if (folder / name).is_dir() else folder / name
    if path is None or not path.is_file() or not path.resolve().is_relative_to(folder.resolve()):
        raise UsageError("there is no such Makefile in the project", where=folder / name)
    return path


def _makefile_below(folder: Path) -> Path:
    below = sorted(path for level in ("*", "*/*") for path in folder.glob(level) if path.is_dir())
    makefiles = [
        makefile
        for subfolder in below
        if "/." not in str(subfolder) and (makefile := makefile_in(subfolder)) is not None
    ]
    if not makefiles:
        raise UsageError(
            "it is not seen how the project is built",
            where=folder,
            why="there is neither a Makefile nor a file of CMake, autotools or Meson",
            hint="begin with a template, `buran init DIR`, and set program.build: any shell command with {mpicxx}",
        )
    highest = [path for path in makefiles if len(path.parts) == len(makefiles[0].parts)]
    named_src = [path for path in highest if path.parent.name == "src"]
    if len(highest) > 1 and len(named_src) == 1:
        return named_src[0]
    if len(highest) > 1:
        names = [str(path.relative_to(folder)) for path in makefiles]
        hint = f"name one, as in --makefile {names[0]}"
        raise UsageError("there are several Makefiles", where=folder, why=", ".join(names[:6]), hint=hint)
    return makefiles[0]


# -- CMake -----------------------------------------------------------------------------------------------


def _cmake_below(folder: Path) -> Path | None:
    """Return the folder in the project with its CMake files: the only one, or the one called src."""
    subfolders = [path.parent for path in sorted(folder.glob(f"*/{CMAKE_FILE}"))]
    return next((subfolder for subfolder in subfolders if subfolder.name == "src" or len(subfolders) == 1), None)


def _with_cmake(folder: Path, subfolder: Path, *, both: bool) -> Project:
    below = subfolder.relative_to(folder)
    found, sources = configured_by_cmake(folder, below), sources_below(folder)
    mpi = found.mentions_mpi or mention_mpi(sources)
    compiled = found.languages or languages(sources) or {Language.CXX}
    options = [f"-DCMAKE_{name}_COMPILER={{{each.value}}}" for each, name in CMAKE_NAMES.items() if each in compiled]
    words = " ".join([*options, *found.switches])
    too = ", and a Makefile, which `buran init --system make` takes" if both else ""
    remarks = _remarks(f"{below / CMAKE_FILE}{too}", found, mpi)
    build = f"cmake -S {below} -B build -DCMAKE_BUILD_TYPE=Release {words} && cmake --build build"
    presets = _presets(folder) if subfolder == folder else []
    if presets:
        remarks.append(f"It has presets: {', '.join(presets)}; one is taken where the plain way does not build")
    ways = tuple(f"cmake --preset {name} -B build {words} && cmake --build build" for name in presets)
    return Project(folder, build, found.programs, mpi, tuple(remarks), ways, failure=found.failure)


def _remarks(shown: str, found: Configured, mpi: bool) -> list[str]:
    absent = "; no use of MPI" if found.failure is None else "; whether it uses MPI is not known"
    remarks = [f"Found: {shown}" + ("" if mpi else absent)]
    if found.switches:
        remarks.append(f"{', '.join(found.switches)}: MPI is off by default, and switched on here")
    if found.failure is not None:
        remarks.append(f"<- {found.failure.what}: {str(found.failure.why).splitlines()[0]}")
    return remarks


def _presets(folder: Path) -> list[str]:
    """Return the names of presets that may be configured, as the file has them."""
    path = folder / "CMakePresets.json"
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))["configurePresets"] if path.is_file() else []
        names = [str(preset["name"]) for preset in listed if not preset.get("hidden")]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
    return [name for name in names if re.fullmatch(r"[\w.+-]+", name)]


# -- autotools and Meson ---------------------------------------------------------------------------------

_VARIABLES = {Language.C: "CC", Language.CXX: "CXX", Language.FORTRAN: "FC"}


def _settings(compiled: Collection[Language]) -> str:
    """Return what sets all compilers that a project needs."""
    needed = compiled or {Language.C}
    return " ".join(f"{name}={{{each.value}}}" for each, name in _VARIABLES.items() if each in needed)


def _with_autotools(folder: Path, begin: str) -> Project:
    sources = sources_below(folder)
    mpi, settings = mention_mpi(sources), _settings(languages(sources))
    prepare = {"configure": "", "configure.ac": "autoreconf -fi && ", "configure.in": "autoreconf -fi && "}
    first = prepare.get(begin, f"sh ./{begin} && ")
    flags = " ".join(f"{name}='{{flags}}'" for name in ("CFLAGS", "CXXFLAGS", "FCFLAGS"))
    remarks = [f"Found: {begin} of autotools" + ("" if mpi else "; no use of MPI")]
    options = _mpi_option(folder / begin) if mpi else ""
    if options:
        remarks.append(f"{options.strip()}: its configure has this option, and it is given")
    build = f"{first}./configure --disable-shared{options} {settings} {flags} && make"
    return Project(folder, build, (), mpi, tuple(remarks))


def _mpi_option(configure: Path) -> str:
    """Return the option of a configure script that switches MPI on; empty where it has none."""
    text = configure.read_text(encoding="utf-8", errors="replace")
    for kind in ("enable", "with"):
        if re.search(rf"^\s+--{kind}-mpi\b|AC_ARG_{kind.upper()}\(\s*\[?mpi\b", text, re.MULTILINE):
            return f" --{kind}-mpi"
    return ""


def _with_meson(folder: Path) -> Project:
    found, sources = configured_by_meson(folder), sources_below(folder)
    mpi = found.mentions_mpi or mention_mpi(sources)
    settings = _settings(found.languages or languages(sources))
    setup = " ".join([settings, "meson setup build --buildtype=release", *found.switches])
    remarks = tuple(_remarks("meson.build", found, mpi))
    return Project(folder, f"{setup} && meson compile -C build", found.programs, mpi, remarks, failure=found.failure)


# -- make ------------------------------------------------------------------------------------------------


def _with_make(folder: Path, path: Path) -> Project:
    makefile = read_makefile(path)
    sources = sources_below(folder)
    below = path.parent.relative_to(folder)
    written_in = languages([source for source in sources if source.parent == path.parent] or sources)
    compilers = makefile.compilers(written_in)
    inner = _inner(makefile) if not compilers else None
    shown = str(path.relative_to(folder))
    remarks = [f"Found: {shown}"]
    if inner is not None:
        compilers = inner.compilers(written_in)
        remarks[0] += f", which calls that in {inner.path.parent.relative_to(folder)}"
    reading = inner or makefile
    suites = [f"{name}={value}" for name, value in reading.suites.items() if reading.variables.get(name) != value]
    settings = [*suites, *(_setting(reading, name, language) for name, language in compilers.items())]
    flags = reading.unset_flags(set(compilers.values()))
    settings += [f"{name}='{{flags}}'" for name in flags]
    if compilers and not flags:
        named = " ".join(f"{name}='{{flags}}'" for name in flag_variables(set(compilers.values())))
        remarks.append(f"its own compiler flags stay; to set others, add all of them here, as in {named}")
        if not reading.optimises(set(compilers.values())):
            remarks.append("none of them optimises (-O2): times are those of a slow program")
    # A variant takes the usual name: a Makefile that calls itself would not find it by another.
    variant = path.name not in NAMES
    words = ["make", *([] if below == Path() else ["-C", str(below)]), *settings]
    build = f"cp {shown} {below / 'Makefile'} && {' '.join(words)}" if variant else " ".join(words)
    by_name = reading.by_name()
    if by_name and not compilers:
        remarks.append(f"{shown} calls {', '.join(by_name)} by name: in the copy that is built, wrappers replace them")
        build = _replaced(by_name, reading.path.relative_to(folder)) + " && " + build
    elif not compilers:
        build += " CC={mpicc} CXX={mpicxx}"
        remarks.append(f"<- which variables of {shown} name the compilers was not seen; these are the usual ones")
    mpi = mention_mpi(sources) or any("mpi" in reading.expand(f"$({name})").lower() for name in compilers)
    if not mpi:
        remarks[0] += "; no use of MPI"
    subfolder = reading.path.parent.relative_to(folder)
    binaries = tuple(str(subfolder / name) for name in reading.programs())
    others = [other for other in variants_in(path.parent) if other != path]
    ways = tuple(build.replace(f"cp {shown} ", f"cp {below / other.name} ") for other in others if variant)
    plain = reading.without_offload()
    if plain:
        remarks.append("Its flags for GPUs are left out where they do not build")
        ways = (f"{build} {' '.join(plain)}", *ways)
    return Project(folder, build, binaries, mpi, tuple(remarks), ways)


def _inner(makefile: Makefile) -> Makefile | None:
    """Return the first Makefile that this one calls, or that lies in a folder below, and that links a program."""
    folder = makefile.path.parent
    below = [path for path in sorted(folder.iterdir()) if path.is_dir()]
    for subfolder in (*(folder / name for name in makefile.calls_in_folders()), *below):
        path = makefile_in(subfolder)
        if path is not None:
            inner = read_makefile(path)
            if inner.programs():
                return inner
    return None


def _setting(makefile: Makefile, name: str, language: Language) -> str:
    more = makefile.extra_words(name)
    if not more or "$" in more or "'" in more:
        return f"{name}={{{language.value}}}"
    return f"{name}='{{{language.value}}} {more.replace('{', '{{').replace('}', '}}')}'"


def _replaced(by_name: dict[str, Language], path: Path) -> str:
    edits = " ".join(
        rf"-e 's|^\(\t[@-]*\){re.escape(name)} |\1{{{language.value}}} |'" for name, language in by_name.items()
    )
    return f"sed -i {edits} {path}"
