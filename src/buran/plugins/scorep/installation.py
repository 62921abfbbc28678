"""A Score-P in PATH: its version, its wrappers, and what it was made for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from buran.errors import ToolError
from buran.measurement.toolchain.installed import find_tool, run_tool

_WRAPPERS = {
    "cc": ("scorep-gcc", "scorep-clang"),
    "cxx": ("scorep-g++", "scorep-clang++"),
    "fc": ("scorep-gfortran",),
    "mpicc": ("scorep-mpicc",),
    "mpicxx": ("scorep-mpicxx",),
    "mpifort": ("scorep-mpifort", "scorep-mpif90"),
}
_FAMILIES = {"gnu": "gcc", "clang": "clang", "llvm": "clang"}


@dataclass(frozen=True)
class Installation:
    """A Score-P that was found.

    Attributes
    ----------
    version
        As ``8.4``.
    wrappers
        Compiler wrappers by our placeholders.
    compiler
        That it was made for, as ``gnu 12.2.0``; empty if it does not say.
    instrumentation
        How functions get hooks, as ``gcc_plugin``; ``no`` where they do not; empty if it does not say.
    compilers
        Programs that it was made for, by our placeholders ``cc`` and ``cxx``: no others take its plugin.
    """

    version: str
    wrappers: Mapping[str, str]
    compiler: str = ""
    instrumentation: str = ""
    compilers: Mapping[str, str] = field(default_factory=dict)

    @property
    def filters_builds(self) -> bool:
        """Whether filters decide what is compiled: plugins take them. Assumed where it is unknown."""
        return not self.instrumentation or "plugin" in self.instrumentation

    @property
    def family(self) -> str:
        """The compiler's family as campaign files name it; ``auto`` for others."""
        return _FAMILIES.get(self.compiler.partition(" ")[0], "auto")


def find_scorep() -> Installation:
    """Find Score-P in PATH.

    Raises
    ------
    ToolError
        It is missing, has no wrappers for an MPI, or gives functions no hooks.
    """
    program = find_tool("scorep")
    if program is None:
        raise ToolError(
            "Score-P was not found",
            where="PATH",
            why="there is no program scorep",
            hint="load its module, or choose backend: embedded",
        )
    text = run_tool([program, "--version"], what="Score-P does not say its version")
    version = re.search(r"\b(\d+\.\d+[\w.]*)", text)
    if version is None:
        raise ToolError("Score-P does not say its version", where=program, why=text.strip()[:200])
    found = {}
    for role, names in _WRAPPERS.items():
        paths = [path for path in map(find_tool, names) if path is not None]
        if paths:
            found[role] = paths[0]
    if not {"mpicc", "mpicxx"} & set(found):
        raise ToolError(
            "Score-P has no wrappers for an MPI",
            where=program,
            why="neither scorep-mpicc nor scorep-mpicxx is in PATH",
            hint="install a Score-P that was configured with an MPI",
        )
    installation = Installation(version.group(1), found, *_made_for())
    if installation.instrumentation == "no":
        raise ToolError(
            "this Score-P does not instrument functions",
            where=program,
            why="its summary (scorep-info config-summary) says: compiler instrumentation no",
            hint="install one that was configured with a compiler plugin, or choose backend: embedded",
        )
    return installation


def _made_for() -> tuple[str, str, Mapping[str, str]]:
    """Return the C++ compiler a Score-P was made for, how functions get hooks, and its compilers' programs.

    As far as its summary tells.
    """
    program = find_tool("scorep-info")
    if program is None:
        return "", "", {}
    summary = run_tool([program, "config-summary"], what="Score-P does not report how it was configured")
    compiler = re.search(r"C\+\+11 compiler:.*\(([^()]+)\)\s*$", summary, re.MULTILINE)
    lines = {"cc": re.search(r"^ *C99 compiler:\s+(/\S+)", summary, re.MULTILINE)}
    lines["cxx"] = re.search(r"^ *C\+\+11 compiler:\s+(/\S+)", summary, re.MULTILINE)
    programs = {role: line[1] for role, line in lines.items() if line}
    hooks = re.search(r"Compiler instrumentation:\s*(\S+)(?:\n\s+C:.*)?(?:\n\s+C\+\+:\s*(\S+))?", summary)
    return compiler[1] if compiler else "", (hooks[2] or hooks[1]).rstrip(",") if hooks else "", programs
