"""What a compiler's command line is going to do."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
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
    words = expanded(arguments)
    only_answers = header_given = language_given = language_seen = False
    lto = shares = stops_early = only_reads = precompiles = names_mpi = False
    linker: list[str] = []
    inputs: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word in WITH_VALUE:
            value = words[at] if at < len(words) else ""
            at += 1
            if word == "-x":
                language_given, header_given = value != "none", value.endswith("-header")
            elif word in ("-Xlinker", "-z"):
                linker.append(f"-z {value}" if word == "-z" else value)
            elif word == "-Xclang" and value == "-emit-pch":
                precompiles = True
            elif word == "-l":
                names_mpi |= _is_mpi_library(f"-l{value}")
        elif word in ASKING or word.startswith(ASKING_PREFIXES):
            only_answers = True
        elif word.startswith("-x"):
            language_given, header_given = word != "-xnone", word.endswith("-header")
        elif word.startswith("-flto"):
            lto = True
        elif word == "-fno-lto":
            lto = False
        elif word in NO_LINK:
            stops_early = True
            only_reads |= word in NO_CODE
            shares |= word.endswith("-shared")
        elif word.startswith("-Wl,"):
            linker.extend(word.split(",")[1:])
        elif word == "-" or not word.startswith("-"):
            inputs.append(word)
            language_seen |= language_given
            precompiles |= header_given or (not language_given and Path(word).suffix in HEADER_SUFFIXES)
            names_mpi |= _is_mpi_library(word)
        else:
            names_mpi |= _is_mpi_library(word)
    if only_answers or not inputs:
        return CommandLine(compiles=False, links=False, lto=lto)
    has_source = language_seen or any(Path(name).suffix in SOURCE_SUFFIXES for name in inputs)
    return CommandLine(
        compiles=has_source and not only_reads and not precompiles,
        links=not stops_early and not precompiles,
        lto=lto,
        shares=shares,
        precompiles=precompiles and not only_reads,
        refuses_undefined=_refuses_undefined(linker),
        names_mpi=names_mpi,
        reads=has_source and only_reads,
    )


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


def _refuses_undefined(linker: Sequence[str]) -> bool:
    words = " ".join(linker)
    return any(text in f" {words} " for text in (" --no-undefined ", " -no-undefined ", " -z defs ", " -zdefs "))


def _is_mpi_library(word: str) -> bool:
    """Whether a word of the link line is an MPI library: ``-lmpi``, ``/usr/lib/libmpich.so.12``."""
    name = word[2:] if word.startswith("-l") else Path(word).name
    if not word.startswith("-l"):
        if not name.startswith("lib") or not (name.endswith(".a") or ".so" in name):
            return False
        name = name[3:].split(".")[0]
    return name.lstrip(":").startswith(("mpi", "pmpi", "libmpi", "mpich"))
