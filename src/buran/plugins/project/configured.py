"""What CMake and Meson say of a project, from a copy that they configure: file API, trace and introspection."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from buran.errors import ToolError
from buran.files import read_json
from buran.measurement.build import LONGEST_ERROR, first_error
from buran.measurement.machine.machine import free_marker
from buran.measurement.machine.process import run_limited
from buran.measurement.source import copy_source, local_source
from buran.plugins.project.sources import CMAKE_NAMES, Language

LIMIT_S = 1800.0  # of configuring, and of a trial build
_BUILD = "build"
_API = f"{_BUILD}/.cmake/api/v1"
_TRACE, _INTROSPECTION = f"{_BUILD}/trace.json", f"{_BUILD}/introspection.json"
_CMAKE = (
    f"mkdir -p {_API}/query && touch {_API}/query/codemodel-v2 {_API}/query/cache-v2 && "
    f"cmake -B {_BUILD} --trace-format=json-v1 --trace-redirect={_TRACE} -DCMAKE_BUILD_TYPE=Release"
)
_MESON = f"meson introspect --all {_BUILD} >{_INTROSPECTION}"
_INSTALL = {"cmake": "apt install cmake", "meson": "pip install meson ninja"}
_NEXT = "install what it misses and repeat `buran init`, or add the options that it needs to program.build"
_MPI = re.compile(r"(^|[_:-])MPI($|[_-])", re.IGNORECASE)
_CONDITION = re.compile(r"(\w+_)?(USE|ENABLE|WITH)_(\w+_)?MPI")
_OFF = ("", "OFF", "NO", "FALSE", "0", "N")
_MESON_LANGUAGES = {"c": Language.C, "cpp": Language.CXX, "fortran": Language.FORTRAN}
_LAST_LINES = 10  # of what a tool printed


@dataclass(frozen=True)
class Configured:
    """What a configured project says of itself; nothing where it cannot be configured.

    Attributes
    ----------
    programs
        Executables, relative to the project's folder, where it is built in `build`.
    languages
        Those that it has compilers for.
    switches
        Options that switch MPI on where it is off.
    mentions_mpi
        Whether packages, options or conditions name it.
    failure
        Why it, or the switches of it, could not be configured.
    """

    programs: tuple[str, ...] = ()
    languages: frozenset[Language] = frozenset()
    switches: tuple[str, ...] = ()
    mentions_mpi: bool = False
    failure: ToolError | None = None


def configured_by_cmake(folder: Path, below: Path) -> Configured:
    """Return what CMake says of a project; `below` has the first of its files."""
    return _configured(
        folder, "cmake", lambda switches: f"{_CMAKE} -S {shlex.quote(str(below))} {switches}", _read_cmake
    )


def configured_by_meson(folder: Path) -> Configured:
    """Return what Meson says of a project."""
    setup = f"meson setup {_BUILD} --buildtype=release"
    return _configured(folder, "meson", lambda switches: f"{setup} {switches} && {_MESON}", _read_meson)


def run_logged(command: str, folder: Path, environment: Mapping[str, str] = os.environ) -> tuple[str | None, str]:
    """Run a shell command in a folder; return why it failed, None if it did not, and what it printed."""
    log = folder.with_suffix(".log")
    outcome = run_limited(
        ["bash", "-c", f"exec 2>&1\n{command}"],
        cwd=folder,
        environment=environment,
        marker=free_marker(),
        stdout=log,
        stderr=folder.with_suffix(".err"),
        time_limit_s=LIMIT_S,
    )
    return outcome.failure, log.read_text(errors="replace").replace(f"{folder}/", "")


def reason(log: str) -> str:
    """Return the first error in a log, else its last line."""
    return first_error(log) or log.strip().rpartition("\n")[2].strip()[:LONGEST_ERROR]


def _configured(
    folder: Path, tool: str, command: Callable[[str], str], read: Callable[[Path], Configured]
) -> Configured:
    """Configure a copy, and another with the switches that it shows, until one shows no others."""
    if shutil.which(tool) is None:
        why, hint = "only it knows which programs there are", f"{_INSTALL[tool]}, and repeat `buran init`"
        return Configured(failure=ToolError(f"{tool} is not installed", where=folder, why=why, hint=hint))
    found, switches = Configured(), tuple[str, ...]()
    with tempfile.TemporaryDirectory(prefix="buran-init-") as scratch:
        while True:
            source = Path(scratch).resolve() / str(len(switches))
            copy_source(local_source(folder), source)
            failure, log = run_logged(command(" ".join(switches)), source)
            if failure is not None:
                what = " ".join([f"{tool} does not configure the project", *(["with", *switches] if switches else [])])
                last = [line for line in log.splitlines() if line.strip()][-_LAST_LINES:]
                why = "\n".join([reason(log) or failure, *last])
                return replace(found, failure=ToolError(what, where=folder, why=why, hint=_NEXT))
            found = read(source)
            further = tuple(switch for switch in found.switches if switch not in switches)
            found = replace(found, switches=switches, mentions_mpi=found.mentions_mpi or bool(further))
            if not further:
                return found
            switches += further


def _read_cmake(source: Path) -> Configured:
    """Read the replies of CMake's file API, and from its trace conditions on what nothing sets."""
    replies = source / _API / "reply"
    index = read_json(max(replies.glob("index-*.json")))["reply"]
    cache = {entry["name"]: entry for entry in read_json(replies / index["cache-v2"]["jsonFile"])["entries"]}
    off = [name for name, entry in cache.items() if _MPI.search(name) and _is_off(entry)]
    calls = [json.loads(line) for line in (source / _TRACE).read_text(errors="replace").splitlines()[1:]]
    set_by_call = {call["args"][0] for call in calls if call["cmd"].lower() == "set" and call["args"]}
    tested = [call["args"][0] for call in calls if call["cmd"].lower() == "if" and len(call["args"]) == 1]
    off += [name for name in tested if _CONDITION.fullmatch(name) and name not in {*cache, *set_by_call}]
    entries = read_json(replies / index["codemodel-v2"]["jsonFile"])["configurations"][0]["targets"]
    targets = [(entry["directoryIndex"], read_json(replies / entry["jsonFile"])) for entry in entries]
    programs = sorted(
        (folder, _line(target), target["artifacts"][0]["path"])
        for folder, target in targets
        if target["type"] == "EXECUTABLE"
    )
    return Configured(
        tuple(os.path.relpath(source / _BUILD / path, source) for _, _, path in programs),
        frozenset(language for language, name in CMAKE_NAMES.items() if f"CMAKE_{name}_COMPILER" in cache),
        tuple(f"-D{name}=ON" for name in dict.fromkeys(off)),
        any(map(_MPI.search, cache)),
    )


def _line(target: Mapping[str, Any]) -> int:
    """Return the line that a target stands in, as far as CMake knows it."""
    nodes = target["backtraceGraph"]["nodes"]
    return int(nodes[target["backtrace"]].get("line", 0)) if "backtrace" in target else 0


def _is_off(entry: Mapping[str, Any]) -> bool:
    """Tell whether an entry of CMake's cache is an option of the project, no setting of a module, and is off."""
    is_advanced = any(each["name"] == "ADVANCED" and each["value"] == "1" for each in entry["properties"])
    return entry["type"] == "BOOL" and entry["value"].upper() in _OFF and not is_advanced


def _read_meson(source: Path) -> Configured:
    """Read what Meson's introspection wrote."""
    shown = read_json(source / _INTROSPECTION)
    kinds, off = ("boolean", "combo"), {False: "true", "disabled": "enabled"}
    options = [each for each in shown["buildoptions"] if each["section"] == "user" and _MPI.search(each["name"])]
    programs = [target["filename"][0] for target in shown["targets"] if target["type"] == "executable"]
    return Configured(
        tuple(os.path.relpath(path, source) for path in programs),
        frozenset(_MESON_LANGUAGES[name] for name in shown["compilers"]["host"] if name in _MESON_LANGUAGES),
        tuple(
            f"-D{each['name']}={off[each['value']]}"
            for each in options
            if each["type"] in kinds and each["value"] in off
        ),
        bool(options) or any(_MPI.search(each["name"]) for each in shown["dependencies"]),
    )
