"""The compiler wrappers ``buran-mpicc`` and ``buran-mpicxx``.

They call the real MPI wrapper with the toolchain's compiler, and add what the build mode needs. A target's
build system only has to be told another compiler name; everything else comes from the environment:

BURAN_MODE
    ``vanilla`` (default; the same compiler, nothing added), ``time`` or ``effort``.
BURAN_TOOLCHAIN
    File written by `buran.measure.toolchain.Toolchain.save`. Without it the machine is searched each time.
BURAN_FILTER
    Score-P filter file that selects functions.

Started once per source file: standard library only, and only what is needed.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from buran.errors import BuranError, ToolError, UsageError

if TYPE_CHECKING:
    from buran.measure.toolchain import Toolchain

# fmt: off
SOURCE_SUFFIXES = frozenset((
    ".c", ".i", ".s", ".S", ".sx", ".cc", ".cp", ".cxx", ".cpp", ".CPP", ".c++", ".C", ".ii", ".ixx", ".cppm",
    ".m", ".mm", ".M", ".mi", ".mii", ".ll", ".bc",
))
# Options with which no program is linked.
NO_LINK = frozenset(("-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "-emit-llvm", "-r", "-shared"))
# Options that only ask for information, with or without inputs.
ASKING = frozenset((
    "-###", "--version", "--help", "-dumpversion", "-dumpmachine", "-dumpfullversion",
    "-show", "-compile_info", "-link_info", "-compile-info", "-link-info",
))
ASKING_PREFIXES = ("--showme", "-showme", "-print-", "--print-")
# Options whose value is the next word.
WITH_VALUE = frozenset((
    "-o", "-x", "-I", "-L", "-l", "-D", "-U", "-include", "-imacros", "-isystem", "-iquote", "-idirafter",
    "-iprefix", "-iwithprefix", "-isysroot", "-MF", "-MT", "-MQ", "-Xlinker", "-Xclang", "-Xassembler",
    "-Xpreprocessor", "-T", "-u", "-z", "-e", "-target", "-arch", "-aux-info", "-A", "-mllvm", "--param",
    "-G", "-framework", "-wrapper", "-specs", "-B", "-imultilib",
))
# fmt: on


@dataclass(frozen=True)
class CommandLine:
    """What a compiler command line is going to do.

    Attributes
    ----------
    compiles
        There is source among the inputs.
    links
        The result is a program.
    lto
        Code is generated at link time.
    """

    compiles: bool
    links: bool
    lto: bool


def inspect(arguments: Sequence[str]) -> CommandLine:
    """Tell what a command line does. Response files (``@file``) are read."""
    words = _expanded(arguments)
    asks = language_given = language_seen = lto = stops_early = False
    inputs: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word in WITH_VALUE:
            if word == "-x":
                language_given = at < len(words) and words[at] != "none"
            at += 1
        elif word in ASKING or word.startswith(ASKING_PREFIXES):
            asks = True
        elif word.startswith("-x"):
            language_given = word != "-xnone"
        elif word.startswith("-flto"):
            lto = True
        elif word == "-fno-lto":
            lto = False
        elif word in NO_LINK:
            stops_early = True
        elif word == "-" or not word.startswith("-"):
            inputs.append(word)
            language_seen |= language_given
    if asks or not inputs:
        return CommandLine(compiles=False, links=False, lto=lto)
    return CommandLine(
        compiles=language_seen or any(Path(name).suffix in SOURCE_SUFFIXES for name in inputs),
        links=not stops_early,
        lto=lto,
    )


def translate(
    arguments: Sequence[str], *, cxx: bool, mode: str, toolchain: Toolchain, filter_file: str | None = None
) -> list[str]:
    """Return the command of the MPI's wrapper for a command line of ours.

    Parameters
    ----------
    arguments
        Without the program's name.
    cxx
        Whether it is the C++ wrapper.
    mode
        ``vanilla``, ``time`` or ``effort``.
    filter_file
        Score-P filter file.

    Raises
    ------
    UsageError
        If the mode is unknown, or if basic blocks cannot be counted with these options.
    """
    from buran.measure.toolchain import MODES, flags_for_compiling, flags_for_linking

    program = toolchain.mpicxx if cxx else toolchain.mpicc
    if mode == "vanilla":
        return [program, *arguments]
    if mode not in MODES:
        raise UsageError(
            f"unknown build mode `{mode}`", where="BURAN_MODE", why=f"allowed: vanilla, {', '.join(MODES)}"
        )
    does = inspect(arguments)
    if does.lto and mode == "effort" and (does.compiles or does.links):
        raise UsageError(
            "basic blocks cannot be counted with link-time optimisation",
            where=" ".join(arguments),
            why="code is changed again after the blocks were counted",
            hint="build the target without -flto, or with -fno-lto as the last option",
        )
    before = flags_for_compiling(toolchain, mode) if does.compiles else ()
    after = flags_for_linking(toolchain, mode, filter_file) if does.links else ()
    if after and does.compiles:
        after = ("-x", "none", *after)  # a -x of the user's would make sources of our objects
    return [program, *before, *arguments, *after]


def main(arguments: Sequence[str], *, cxx: bool, environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by the MPI's compiler wrapper."""
    from buran.measure.toolchain import Toolchain, environment_for, find_toolchain

    try:
        path = environment.get("BURAN_TOOLCHAIN")
        toolchain = Toolchain.load(path) if path else find_toolchain()
        mode = environment.get("BURAN_MODE") or "vanilla"
        filter_file = environment.get("BURAN_FILTER") or None
        command = translate(arguments, cxx=cxx, mode=mode, toolchain=toolchain, filter_file=filter_file)
        new_environment = {**environment, **environment_for(toolchain, mode)}
        try:
            os.execve(command[0], command, new_environment)
        except OSError as error:
            raise ToolError(
                "the MPI compiler wrapper cannot be started", where=command[0], why=error.strerror
            ) from None
    except BuranError as error:
        print(f"{'buran-mpicxx' if cxx else 'buran-mpicc'}: {error}", file=sys.stderr)
        sys.exit(int(error.exit_code))


def mpicc() -> NoReturn:
    """Run ``buran-mpicc``."""
    main(sys.argv[1:], cxx=False, environment=os.environ)


def mpicxx() -> NoReturn:
    """Run ``buran-mpicxx``."""
    main(sys.argv[1:], cxx=True, environment=os.environ)


def _expanded(arguments: Sequence[str]) -> list[str]:
    """Replace response files by their words; one that cannot be read is left for the compiler to complain."""
    words: list[str] = []
    for word in arguments:
        if word.startswith("@") and len(word) > 1:
            try:
                words.extend(shlex.split(Path(word[1:]).read_text(encoding="utf-8")))
                continue
            except (OSError, ValueError):
                pass
        words.append(word)
    return words
