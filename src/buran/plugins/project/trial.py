"""Building a project once in a scratch folder: which programs appear, whether they use MPI, what their help says."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from buran.campaign.plan import Mode
from buran.campaign.template import parse_template
from buran.errors import FormatError
from buran.measurement.backends.embedded import EmbeddedBackend, open_embedded
from buran.measurement.machine.machine import free_marker
from buran.measurement.machine.process import run_limited
from buran.measurement.source import copy_source, local_source
from buran.measurement.toolchain.elf import Elf, is_elf
from buran.plugins.project.configured import reason, run_logged
from buran.plugins.project.examine import Project
from buran.plugins.project.sources import CMAKE_NAMES, Language, mpi_guards, sources_below

_OTHER = "gcc"  # knows flags that clang, the first choice, does not
_HELP_LIMIT_S = 10.0
_MOST_OPTIONS = 8  # of a program's help, in a remark
_COMPILER = re.compile(r"=(?:'(\{mpi\w+\}[^']*)'|(\{mpi\w+\})(?=\s|$))")
_OPTION = re.compile(r"^\s*(--?[A-Za-z][\w-]*)[ =,]\s*[^\n]*", re.MULTILINE)
_SIZE = re.compile(r"siz|dim|cell|elem|grid|zone|mesh|partic|length|\bn[xyz]", re.IGNORECASE)
_MPI_INIT = re.compile(r"p?mpi_init(_thread)?_?(f08_?)?", re.IGNORECASE)
_C = ("mpicc", "mpicxx")
# What compilers accepted when older codes were written: failure of today's, and the flag that accepts it.
_ACCEPTED_ONCE = (
    (re.compile(r"implicit-function-declaration|call to undeclared"), "-Wno-implicit-function-declaration", _C),
    (re.compile(r"error: .*-Wint-conversion"), "-Wno-int-conversion", _C),
    (re.compile(r"Type mismatch (between|in) .*argument"), "-fallow-argument-mismatch", ("mpifort",)),
    (re.compile(r"multiple definition of"), "-fcommon", _C),
)


@dataclass(frozen=True)
class TrialBuild:
    """What came of a build.

    Attributes
    ----------
    programs
        Executables that it made, relative to the build folder.
    uses_mpi
        Whether one of these calls MPI; None if their symbols are gone.
    failure
        First error in the log, where it made none.
    """

    build: str
    compiler: str
    programs: tuple[str, ...]
    uses_mpi: bool | None
    failure: str = ""


def tried(project: Project, say: Callable[[str], None]) -> tuple[Project, str]:
    """Build a project in a scratch folder, by its first way that makes a program.

    Returns
    -------
    tuple
        The project with what was seen, and what its first program prints for ``--help``.

    Raises
    ------
    ToolError
        This machine has no compiler or no MPI.
    """
    with tempfile.TemporaryDirectory(prefix="buran-init-") as name:
        scratch = Path(name).resolve()
        failed: list[TrialBuild] = []
        made: tuple[TrialBuild, Path] | None = None
        for trial, folder in _trials(project, scratch):
            with_gcc = " with gcc" if trial.compiler == "gcc" else ""
            say(f"tried{with_gcc}: {trial.build}: {', '.join(trial.programs[:4]) or trial.failure}")
            is_whole = trial.uses_mpi is not False or not project.uses_mpi
            if trial.programs and (made is None or is_whole):
                made = trial, folder
            if trial.programs and is_whole:
                break
            failed.append(trial)
        if made is None:
            furthest = max(failed, key=lambda each: sum(flag in each.build for _, flag, _ in _ACCEPTED_ONCE))
            remark = f"<- a trial build failed ({furthest.failure}); the command for building needs a look"
            remarks = [*project.remarks, remark]
            return replace(project, build=furthest.build, compiler=furthest.compiler, remarks=tuple(remarks)), ""
        trial, folder = made
        programs = _likeliest_first(trial.programs, project)
        remarks = [each for each in project.remarks if not each.startswith("<-")]
        if project.uses_mpi and trial.uses_mpi is False:
            remarks.append(
                "The build makes a program that does not call MPI, although its sources could: one rank a run"
            )
        uses_mpi = project.uses_mpi if trial.uses_mpi is None else trial.uses_mpi
        shown = _help_of(folder / programs[0])
        return replace(
            project,
            build=trial.build,
            compiler=trial.compiler,
            binaries=programs,
            uses_mpi=uses_mpi,
            remarks=(*remarks, *_options(shown)),
        ), shown


def _trials(project: Project, scratch: Path) -> Iterator[tuple[TrialBuild, Path]]:
    """Yield the builds of a project and the folder of each, with what helps against their failures."""
    waiting = [(build, "auto") for build in (project.build, *project.alternatives)]
    waiting.append((project.build, _OTHER))
    number, has_program = 0, False
    guards = mpi_guards(sources_below(project.folder)) if project.uses_mpi else []
    while waiting:
        build, compiler = waiting.pop(0)
        is_last_resort = compiler == _OTHER and build == project.build
        if is_last_resort and (has_program or shutil.which(_OTHER) is None):
            continue
        folder = scratch / str(number)
        number += 1
        trial, log = _build(project, build, open_embedded(compiler, scratch), compiler, folder)
        has_program = has_program or bool(trial.programs)
        known = [(flag, of) for failure, flag, of in _ACCEPTED_ONCE if failure.search(log) and flag not in build]
        if not trial.programs and known and with_words(build, *known[0]) != build:
            waiting.insert(0, (with_words(build, *known[0]), compiler))
        elif trial.programs and trial.uses_mpi is False and guards:
            waiting.insert(0, (with_words(build, f"-D{guards.pop(0)}"), compiler))
        yield trial, folder


def _build(
    project: Project, build: str, backend: EmbeddedBackend, compiler: str, folder: Path
) -> tuple[TrialBuild, str]:
    copy_source(local_source(project.folder), folder)
    before = set(_executables(folder))
    tools = backend.tools(Mode.VANILLA)
    command = parse_template(build, (*tools, "flags")).fill_shell({**tools, "flags": "-O2"})
    environment = {**os.environ, **backend.build_environment(Mode.VANILLA, None)}
    failure, log = run_logged(command, folder, environment)
    made = sorted(set(_executables(folder)) - before)
    if failure or not made:
        return TrialBuild(build, compiler, (), None, reason(log) or failure or "no program"), log
    symbols = [Elf.read(path).symbols for path in made]
    calls = [any(_MPI_INIT.fullmatch(name) for name in names) for names in symbols if names is not None]
    programs = tuple(str(path.relative_to(folder)) for path in made if not re.search(r"\.so(\.|$)", path.name))
    return TrialBuild(build, compiler, programs, any(calls) if calls else None), log


def _executables(folder: Path) -> Iterator[Path]:
    """Yield what can be run, and shared libraries, which programs may have their MPI from."""
    for walked, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in ("CMakeFiles", "meson-private", ".git", ".libs")]
        for name in names:
            path = Path(walked) / name
            if path.suffix in (".o", ".a") or path.is_symlink() or not os.access(path, os.X_OK):
                continue
            try:
                if is_elf(path):
                    Elf.read(path)
                    yield path
            except (OSError, FormatError):
                continue


def _likeliest_first(programs: tuple[str, ...], project: Project) -> tuple[str, ...]:
    """Sort programs: those that the build files name first, then one called as the project; tests and tools last."""
    predicted, title = project.binaries, project.folder.resolve().name.lower()

    def rank(name: str) -> tuple[int, bool, bool, str]:
        position = predicted.index(name) if name in predicted else len(predicted)
        is_aside = re.search(r"test|tool|util|example|contrib", name.lower()) is not None
        return position, Path(name).stem.lower() != title, is_aside, name

    return tuple(sorted(programs, key=rank))


def with_words(build: str, words: str, of: Sequence[str] = tuple(CMAKE_NAMES)) -> str:
    """Add words behind those compilers, named by their placeholders, that a build command hands over."""
    if not build.startswith("cmake "):
        behind = tuple(f"{{{placeholder}}}" for placeholder in of)
        return _COMPILER.sub(
            lambda match: f"='{match[1] or match[2]} {words}'" if match[0].strip("='").startswith(behind) else match[0],
            build,
        )
    for placeholder in map(Language, of):
        name = CMAKE_NAMES[placeholder]
        compiler, flags = f"-DCMAKE_{name}_COMPILER={{{placeholder}}}", f" -DCMAKE_{name}_FLAGS='"
        new = (flags, f"{flags}{words} ") if flags in build else (compiler, f"{compiler}{flags}{words}'")
        build = build.replace(*new, 1)
    return build


def _help_of(binary: Path) -> str:
    """Return what a program prints for ``--help``; nothing if it does not end."""
    folder = binary.parent
    out, err = folder / ".help.out", folder / ".help.err"
    outcome = run_limited(
        [str(binary), "--help"],
        cwd=folder,
        environment=os.environ,
        marker=free_marker(),
        stdout=out,
        stderr=err,
        time_limit_s=_HELP_LIMIT_S,
        output_limit=100_000,
    )
    return "" if outcome.timed_out else out.read_text(errors="replace") + err.read_text(errors="replace")


def _options(shown: str) -> list[str]:
    lines = [" ".join(match[0].split()) for match in _OPTION.finditer(shown)]
    sizes = [line[:100] for line in lines if _SIZE.search(line)]
    return [f"Its --help says: {line}" for line in sizes[:_MOST_OPTIONS]]


def option_of(name: str, shown: str) -> str | None:
    """Return how a program's help hands over a parameter of this name, as in ``-s {s}``; None if it does not."""
    match = re.search(rf"(?<![\w-])(--?{re.escape(name)})(=|[ ,<\[])", shown)
    return None if match is None else f"{match[1]}{'=' if match[2] == '=' else ' '}{{{name}}}"
