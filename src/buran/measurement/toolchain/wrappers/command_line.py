"""What a compiler's command line is going to do."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

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
