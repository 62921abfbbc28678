"""The compiler wrappers: buran-cc, buran-cxx and buran-fc, and for MPI buran-mpicc, buran-mpicxx and buran-mpifort.

They call the toolchain's compiler, directly or through the MPI's own wrapper, and add what the build mode needs. A
target's build system only has to be told another compiler name; everything else comes from the environment:

BURAN_MODE
    ``vanilla`` (default; the same compiler, nothing added), ``time`` or ``effort``.
BURAN_WRAPPER
    ``off``: as in mode ``vanilla``, for checks of a configure step. Anything else, or nothing: on.
BURAN_TOOLCHAIN
    File with the JSON of a `buran.measurement.toolchain.toolchain.Toolchain`. Without it the machine is searched
    each time.
BURAN_FILTER
    Score-P filter file that selects functions.

Started once per source file: standard library only, and only what is needed.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

from buran.errors import BuranError, ToolError, UsageError
from buran.measurement.toolchain.toolchain import (
    MODES,
    Toolchain,
    environment_for,
    flags_for_compiling,
    flags_for_linking,
    runtime_objects,
)

VANILLA = "vanilla"
# fmt: off
SOURCE_SUFFIXES = frozenset((
    ".c", ".i", ".s", ".S", ".sx", ".cc", ".cp", ".cxx", ".cpp", ".CPP", ".c++", ".C", ".ii", ".ixx", ".cppm",
    ".m", ".mm", ".M", ".mi", ".mii", ".ll", ".bc",
    ".f", ".for", ".ftn", ".F", ".FOR", ".FTN", ".fpp", ".FPP",
    ".f90", ".f95", ".f03", ".f08", ".F90", ".F95", ".F03", ".F08",
))
HEADER_SUFFIXES = frozenset((".h", ".hh", ".hp", ".hxx", ".hpp", ".HPP", ".h++", ".H", ".tcc"))
# Options with which no program is linked.
NO_LINK = frozenset(("-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "-emit-llvm", "-r", "-shared", "--shared",
    "-nostdlib", "-nodefaultlibs",  # no C library: nothing to hold the runtime with
))
# Options with which no machine code is made: the source is only read.
NO_CODE = frozenset(("-E", "-M", "-MM", "-fsyntax-only"))
# Options that only ask for information, with or without inputs.
ASKING = frozenset((
    "-###", "--version", "--help", "-help", "-dumpversion", "-dumpmachine", "-dumpfullversion", "-dumpspecs",
    "-show", "-compile_info", "-link_info", "-compile-info", "-link-info",
))
ASKING_PREFIXES = ("--showme", "-showme", "-print-", "--print-", "--help=")
# Options whose value is the next word.
WITH_VALUE = frozenset((
    "-o", "-x", "-I", "-L", "-l", "-D", "-U", "-include", "-imacros", "-isystem", "-iquote", "-idirafter",
    "-iprefix", "-iwithprefix", "-isysroot", "-MF", "-MT", "-MQ", "-Xlinker", "-Xclang", "-Xassembler",
    "-Xpreprocessor", "-T", "-u", "-z", "-e", "-target", "-arch", "-aux-info", "-A", "-mllvm", "--param",
    "-G", "-framework", "-wrapper", "-specs", "-B", "-imultilib", "-J", "-include-pch",
))
# fmt: on


@dataclass(frozen=True)
class CommandLine:
    """What a compiler command line is going to do.

    Attributes
    ----------
    compiles
        There is source among the inputs, and code is made from it.
    links
        The result is a program.
    lto
        Code is generated at link time.
    shares
        The result is a shared library.
    precompiles
        The result is a precompiled header.
    refuses_undefined
        The linker is told to refuse a shared library with undefined symbols.
    names_mpi
        An MPI library is named among the inputs.
    reads
        There is source among the inputs, of which no code is made.
    """

    compiles: bool
    links: bool
    lto: bool = False
    shares: bool = False
    precompiles: bool = False
    refuses_undefined: bool = False
    names_mpi: bool = False
    reads: bool = False


def inspect(arguments: Sequence[str]) -> CommandLine:
    """Tell what a command line does. Response files (``@file``) are read."""
    options = list(_with_values(expanded(arguments)))
    words = [word for word, value in options if value is None]
    inputs = list(_inputs(options))
    lto = [word != "-fno-lto" for word in words if word.startswith("-flto") or word == "-fno-lto"][-1:] == [True]
    if not inputs or any(word in ASKING or word.startswith(ASKING_PREFIXES) for word in words):
        return CommandLine(compiles=False, links=False, lto=lto)
    stops = NO_LINK.intersection(words)
    only_reads = not stops.isdisjoint(NO_CODE)
    has_source = any(language is not None or Path(name).suffix in SOURCE_SUFFIXES for name, language in inputs)
    precompiles = ("-Xclang", "-emit-pch") in options or any(
        Path(name).suffix in HEADER_SUFFIXES if language is None else language.endswith("-header")
        for name, language in inputs
    )
    libraries = [f"-l{value}" for word, value in options if word == "-l"]
    libraries += [word for word in words if not word.startswith("-Wl,")]
    return CommandLine(
        compiles=has_source and not only_reads and not precompiles,
        links=not stops and not precompiles,
        lto=lto,
        shares=any(word.endswith("-shared") for word in stops),
        precompiles=precompiles and not only_reads,
        refuses_undefined=_refuses_undefined(options),
        names_mpi=any(map(_is_mpi_library, libraries)),
        reads=has_source and only_reads,
    )


def _with_values(words: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Yield each option with the next word where that is its value, inputs and other options with None."""
    rest = iter(words)
    for word in rest:
        yield word, next(rest, "") if word in WITH_VALUE else None


def _inputs(options: Sequence[tuple[str, str | None]]) -> Iterator[tuple[str, str | None]]:
    """Yield the inputs with the language that ``-x`` gives them, None where the suffix decides."""
    language: str | None = None
    for word, value in options:
        if word == "-x" or (value is None and word.startswith("-x")):
            given = word[2:] if value is None else value
            language = None if given == "none" else given
        elif value is None and (word == "-" or not word.startswith("-")):
            yield word, language


def expanded(arguments: Sequence[str], depth: int = 0) -> list[str]:
    """Replace response files by their words; one that cannot be read is left for the compiler to complain."""
    words: list[str] = []
    for word in arguments:
        if word.startswith("@") and len(word) > 1 and depth < 16:  # a file may name further ones, or itself
            try:
                inner = shlex.split(Path(word[1:]).read_text(encoding="utf-8"))
            except (OSError, ValueError):
                pass
            else:
                words.extend(expanded(inner, depth + 1))
                continue
        words.append(word)
    return words


def _refuses_undefined(options: Sequence[tuple[str, str | None]]) -> bool:
    linker: list[str] = []
    for word, value in options:
        if word in ("-Xlinker", "-z"):
            linker.append(f"-z {value}" if word == "-z" else value or "")
        elif word.startswith("-Wl,"):
            linker.extend(word.split(",")[1:])
    words = f" {' '.join(linker)} "
    return any(text in words for text in (" --no-undefined ", " -no-undefined ", " -z defs ", " -zdefs "))


def _is_mpi_library(word: str) -> bool:
    """Whether a word of the link line is an MPI library: ``-lmpi``, ``/usr/lib/libmpich.so.12``."""
    name = word[2:] if word.startswith("-l") else Path(word).name
    if not word.startswith("-l"):
        if not name.startswith("lib") or not (name.endswith(".a") or ".so" in name):
            return False
        name = name[3:].split(".")[0]
    return name.lstrip(":").startswith(("mpi", "pmpi", "libmpi", "mpich"))


@dataclass(frozen=True)
class Wrapper:
    """One of the wrappers.

    Attributes
    ----------
    name
        As users type it.
    tool
        Field of the toolchain that holds the program it stands for.
    mpi
        Whether that program is the MPI's own wrapper, which finds headers and libraries itself.
    fortran
        Whether that program compiles Fortran.
    """

    name: str
    tool: str
    mpi: bool
    fortran: bool = False


CC = Wrapper("buran-cc", "cc", mpi=False)
CXX = Wrapper("buran-cxx", "cxx", mpi=False)
FC = Wrapper("buran-fc", "fc", mpi=False, fortran=True)
MPICC = Wrapper("buran-mpicc", "mpicc", mpi=True)
MPICXX = Wrapper("buran-mpicxx", "mpicxx", mpi=True)
MPIFORT = Wrapper("buran-mpifort", "mpifort", mpi=True, fortran=True)


def translate(
    arguments: Sequence[str], *, wrapper: Wrapper, mode: str, toolchain: Toolchain, filter_file: str | None = None
) -> list[str]:
    """Return the command of the real compiler for a command line of ours.

    Parameters
    ----------
    arguments
        Without the program's name.
    wrapper
        Which of the wrappers it is.
    mode
        ``vanilla``, ``time`` or ``effort``.
    filter_file
        Score-P filter file.

    Raises
    ------
    UsageError
        If the mode is unknown, or if code cannot be instrumented with these options.
    ToolError
        If there is no such compiler.
    """
    program = program_of(wrapper, toolchain)
    if mode == VANILLA:
        return [program, *arguments]
    if mode not in MODES:
        raise UsageError(
            f"unknown build mode `{mode}`", where="BURAN_MODE", why=f"allowed: {VANILLA}, {', '.join(MODES)}"
        )
    does = inspect(arguments)
    refuse(does, arguments)
    # Our objects stand first: behind the user's a `-x` would make sources of them, and what begins first ends last, so
    # that the profile holds the destructors of static objects.
    mpi = wrapper.mpi or does.names_mpi
    before = runtime_objects(toolchain, mode, mpi=mpi) if does.links else ()
    if does.compiles:
        before = (*before, *flags_for_compiling(toolchain, mode, fortran=wrapper.fortran))
    if does.reads:
        before = (*before, *toolchain.mpi_compiling)
    after: tuple[str, ...] = flags_for_linking(toolchain, mode, filter_file, mpi=mpi) if does.links else ()
    if does.shares and does.refuses_undefined:
        after = ("-Wl,--unresolved-symbols=ignore-all",)  # the runtime is in the executable, and only there
    return [program, *before, *arguments, *after]


def program_of(wrapper: Wrapper, toolchain: Toolchain) -> str:
    """Return the program a wrapper stands for; raise `ToolError` if this machine has none."""
    program: str | None = getattr(toolchain, wrapper.tool)
    if wrapper.fortran and not toolchain.fc:
        raise ToolError("Fortran programs cannot be measured here", where=wrapper.name, why=toolchain.fortran_missing)
    if program is None:
        hint = "Open MPI's package of Debian has one: apt install libopenmpi-dev openmpi-bin"
        raise ToolError("this MPI has no compiler wrapper for Fortran", where=toolchain.mpicc, hint=hint)
    return program


def refuse(does: CommandLine, arguments: Sequence[str]) -> None:
    """Raise `UsageError` for what an instrumented build cannot do."""
    if does.lto and (does.compiles or does.links or does.shares):
        raise UsageError(
            "instrumented builds do not work with link-time optimisation",
            where=" ".join(arguments),
            why="code is changed again after instrumentation and counters were inserted",
            hint="build the target without -flto, or with -fno-lto as the last option; CMake: "
            "-DCMAKE_INTERPROCEDURAL_OPTIMIZATION=OFF",
        )
    if does.precompiles:
        raise UsageError(
            "instrumented builds do not work with precompiled headers",
            where=" ".join(arguments),
            why="code in a precompiled header belongs to the build mode it was made for, and nothing checks that",
            hint="switch them off; CMake: -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON",
        )


def run(arguments: Sequence[str], *, wrapper: Wrapper, environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by the real compiler."""
    try:
        if path := environment.get("BURAN_TOOLCHAIN"):
            toolchain = Toolchain.load(path)
        else:
            from buran.measurement.toolchain.runtime import find_toolchain

            toolchain = find_toolchain()
        mode = environment.get("BURAN_MODE") or VANILLA
        if environment.get("BURAN_WRAPPER") == "off":
            mode = VANILLA
        filter_file = environment.get("BURAN_FILTER") or None
        _refuse_ccache()
        command = translate(arguments, wrapper=wrapper, mode=mode, toolchain=toolchain, filter_file=filter_file)
        if "--help" in arguments:
            print(f"{wrapper.name}: {' '.join(command[:1])} with Buran's instrumentation.\n{__doc__}", flush=True)
        new_environment = {**environment, **environment_for(toolchain, mode)}
        try:
            os.execve(command[0], command, new_environment)
        except OSError as error:
            raise ToolError("the compiler cannot be started", where=command[0], why=error.strerror) from None
    except BuranError as error:
        print(f"{wrapper.name}: {error}", file=sys.stderr)
        sys.exit(int(error.exit_code))


def _refuse_ccache() -> None:
    """Raise `UsageError` under ccache, which then calls the compiler once more on its own account and keeps nothing."""
    with contextlib.suppress(OSError):
        parent = Path(f"/proc/{os.getppid()}/comm").read_text(encoding="utf-8").strip()
        if parent in ("ccache", "sccache"):
            raise UsageError(
                f"{parent} cannot keep what Buran's wrappers compile",
                why="it would take objects of one mode or filter for those of another",
                hint="build without it: export CCACHE_DISABLE=1",
            )


def _main(wrapper: Wrapper) -> NoReturn:
    run(sys.argv[1:], wrapper=wrapper, environment=os.environ)


# The programs of these names.
cc, cxx, fc, mpicc, mpicxx, mpifort = (partial(_main, wrapper) for wrapper in (CC, CXX, FC, MPICC, MPICXX, MPIFORT))
