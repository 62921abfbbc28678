"""A commented campaign file for a project."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from buran.campaign.expressions import FUNCTIONS
from buran.campaign.mistakes import listed
from buran.campaign.point import FEWEST
from buran.plugins.project.examine import Project
from buran.plugins.project.repeats import Shown

Number = int | float
_NAME = re.compile(r"[A-Za-z_]\w*")
_GRID = ("px", "py", "pz")
_MOST_PROGRAMS = 6  # named next to the one that is taken
_REPEATS = re.compile(
    r"(n_?|num_?|max_?)?(s|steps?|iter(ation)?s?|cycles?|sweeps?)", re.IGNORECASE
)  # names of numbers of steps
_SIZES = (16, 32, 64, 128, 256)
_OF_EVERY_PROJECT = ("src", "source", "ref", "code", "build", "mpi")


@dataclass(frozen=True)
class Answers:
    """What a person said about a campaign; what is empty is filled with something to begin with, and marked.

    Attributes
    ----------
    sizes
        Values of the parameters of the run command.
    point
        The point of interest.
    """

    name: str = ""
    binary: str = ""
    run: str = ""
    ranks: Sequence[int] = ()
    sizes: Mapping[str, Sequence[Number]] = field(default_factory=dict)
    core_hours: float | None = None
    point: Mapping[str, Number] = field(default_factory=dict)


def proposed_run(answers: Answers) -> str:
    """Return a run command to begin with: the program with the parameters that were named, else with a size n."""
    names = [name for name in dict.fromkeys((*answers.sizes, *answers.point)) if name != "p"] or ["n"]
    return " ".join(["{binary}", *(f"{{{name}}}" for name in names)])


def _name_of(folder: Path) -> str:
    """Return what a campaign is called: as the innermost folder whose name not every project has."""
    named = next((each.name for each in (folder, *folder.parents) if each.name.lower() not in _OF_EVERY_PROJECT), "")
    return re.sub(r"[^A-Za-z0-9_-]+", "-", named).strip("-") or "my-campaign"


def first_ranks(cores: int) -> tuple[int, ...]:
    """Return numbers of ranks to begin with on a machine: powers of two up to its cores, two at least."""
    return tuple(2**i for i in range(max(cores.bit_length(), 2)))


def parameters_of(run: str) -> list[str]:
    """Return the placeholders of a run command that are parameters."""
    fields = re.findall(r"(?<!\{)\{(=?)([^{}]+)\}(?!\})", run)
    names = [name for computed, text in fields for name in (_NAME.findall(text) if computed else [text.strip()])]
    known = ("binary", "build", "ranks", "threads", "if", "else", "and", "or", "not", *FUNCTIONS, *_GRID)
    return [name for name in dict.fromkeys(names) if name not in known]


def grid_values(run: str) -> list[str]:
    """Return the lines of a campaign file that compute the grid of ranks that a run command uses: px, py, pz."""
    used = [name for name in _GRID if re.search(rf"\{{[^{{}}]*\b{name}\b[^{{}}]*\}}", run)]
    dimensions = max((_GRID.index(name) + 1 for name in used), default=0)
    if not dimensions:
        return []
    grid = max(dimensions, 2)
    values = ", ".join(f'{name}: "grid{grid}(p, {i})"' for i, name in enumerate(_GRID[:grid], 1))
    return [f"values: {{{values}}}  # the most compact grid of p ranks", ""]


def values_up_to(largest: Number) -> tuple[Number, ...]:
    """Return five values below one, evenly spaced; whole if it is."""
    values = [largest * i / 6 for i in range(1, 6)]
    return tuple(sorted({max(round(value), 1) for value in values} if isinstance(largest, int) else set(values)))


def steps_of(answers: Answers) -> list[str]:
    """Return the parameters of a run command that may be numbers of steps, by their names and values."""
    sizes = {**dict.fromkeys(parameters_of(answers.run), _SIZES), **answers.sizes}
    return [
        name
        for name, values in sizes.items()
        if _REPEATS.fullmatch(name) and all(isinstance(value, int) for value in values) and max(values) >= FEWEST
    ]


def _steps_in_words(value: Number, shown: Shown | None) -> str:
    """Propose the role steps, or say which call paths are not linear."""
    role = f"{{role: steps, value: {value}}}"
    if shown is None:
        return f"or {role}, if each repeats its work"
    at = ", ".join(map(str, shown.at))
    if shown.refuted:
        return f"a size, as counts at {at} are not linear: {listed(shown.refuted, 3)}"
    return f"or {role}, as counts at {at} are linear"


def campaign_text(
    project: Project,
    source: str,
    answers: Answers,
    cores: int,
    shown: Mapping[str, Shown | None] = MappingProxyType({}),
) -> str:
    """Write a campaign file.

    Parameters
    ----------
    source
        The project's folder as the file names it.
    cores
        Of the machine, for the numbers of ranks.
    shown
        What counts say of numbers of steps, by parameter.
    """
    name = answers.name or _name_of(project.folder.resolve())
    run = answers.run or proposed_run(answers)
    ranks = [] if not (project.uses_mpi or answers.ranks) else list(answers.ranks or first_ranks(cores))
    sizes = {parameter: answers.sizes.get(parameter, ()) for parameter in (*parameters_of(run), *answers.sizes)}
    for parameter in sizes:
        if not sizes[parameter] and parameter in answers.point:
            sizes[parameter] = values_up_to(answers.point[parameter])
    if ranks:
        sizes.pop("p", None)
    repeating = steps_of(answers)
    lines = [
        "# A campaign: which program, how it is built and run, what is varied. Fill in the lines marked with <-.",
        "# Find mistakes with `buran check`, see what would be measured with `buran plan`, measure with `buran run`.",
        "",
        f"name: {name}",
        "results: results",
        "",
        *_program_lines(project, source, answers, run),
        *([f"compiler: {project.compiler}  # the other one does not build it"] if project.compiler != "auto" else []),
        "",
        "parameters:",
    ]
    if ranks:
        lines.append(f"  p: {{role: ranks, values: {_list(ranks)}}}{_proposed('' if answers.ranks else 'MPI ranks')}")
    for parameter, values in sizes.items():
        todo = "" if values else "or range: {start: 10, stop: 50, step: 10}"
        if parameter in repeating:
            todo = _steps_in_words((values or _SIZES)[-1], shown.get(parameter))
        lines.append(f"  {parameter}: {{role: size, values: {_list(values or _SIZES)}}}{_proposed(todo)}")
    largest = {
        **({"p": ranks[-1]} if ranks else {}),
        **{parameter: (values or _SIZES)[-1] for parameter, values in sizes.items()},
    }
    point = ", ".join(f"{key}: {answers.point.get(key, 2 * value)}" for key, value in largest.items())
    limits = f"resources: {{{'' if ranks else 'ranks: 1, '}time_limit: 10min}}"
    lines += [
        "",
        *(grid_values(run) if ranks else []),
        '# constraints: ["is_cube(p)", "n % 10 == 0", "p * n <= 4096"]',
        f"# evaluation_points: [{{{point}}}]  # measured, but never used for modelling",
        "",
        "repetitions: 3",
        f"budget: {answers.core_hours or 2.0:g}h{_proposed('' if answers.core_hours else 'of all runs together')}",
        f"{limits}{_proposed('a run that takes longer is stopped')}",
        f"{'' if answers.point else '# '}target: {{{point}}}  # the point of interest",
        "",
    ]
    return "\n".join(lines)


def _program_lines(project: Project, source: str, answers: Answers, run: str) -> list[str]:
    binary = answers.binary or (project.binaries[0] if project.binaries else "program")
    others = ", ".join([other for other in project.binaries if other != binary][:_MOST_PROGRAMS])
    todo = "" if answers.binary or project.binaries else "what the build makes"
    line = _marked(f"  binary: {_text(binary)}", todo)
    return [
        "program:",
        f"  source: {_text(source)}  # copied before it is built",
        *(f"  # {remark}" for remark in project.remarks),
        f"  build: {_text(project.build)}",
        *(['  flags: "-O2"'] if "{flags}" in project.build else []),
        line + _proposed("" if answers.binary or not others else f"or {others}"),
        _marked(
            f"  run: {_text(run)}", "" if answers.run else "its arguments, without the launcher; parameters in braces"
        ),
    ]


def _proposed(comment: str) -> str:
    return f"  # proposed: {comment}" if comment else ""


def _marked(line: str, todo: str) -> str:
    return f"{line}  # <- {todo}" if todo else line


def _text(value: str) -> str:
    return value if re.fullmatch(r"[A-Za-z0-9_./-]+", value) else json.dumps(value, ensure_ascii=False)


def _list(values: Sequence[Number]) -> str:
    return f"[{', '.join(f'{value:g}' if isinstance(value, float) else str(value) for value in values)}]"


def relative_source(project: Path, folder: Path) -> str:
    """Name a project's folder as seen from a campaign file's folder."""
    return os.path.relpath(project.resolve(), folder.resolve())
