"""A commented campaign file for a project."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from buran.project.examine import Project

Number = int | float
DEFAULT_RUN = "{binary} {n}"
_SIZES = (16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Answers:
    """What a person said about a campaign; what is empty is filled with something to begin with, and marked.

    Attributes
    ----------
    sizes
        Values of the parameters of the run command.
    """

    name: str = ""
    binary: str = ""
    run: str = ""
    ranks: Sequence[int] = ()
    sizes: Mapping[str, Sequence[Number]] = field(default_factory=dict)
    core_hours: float | None = None


def first_ranks(cores: int) -> tuple[int, ...]:
    """Return numbers of ranks to begin with on a machine: powers of two up to its cores, two at least."""
    return tuple(2**i for i in range(max(cores.bit_length(), 2)))


def parameters_of(run: str) -> list[str]:
    """Return the placeholders of a run command that are parameters."""
    names = re.findall(r"(?<!\{)\{(\w+)\}(?!\})", run)
    return [name for name in dict.fromkeys(names) if name not in ("binary", "build", "ranks", "threads")]


def campaign_text(project: Project, source: str, answers: Answers, cores: int) -> str:
    """Write a campaign file.

    Parameters
    ----------
    source
        The project's folder as the file names it.
    cores
        Of the machine, for the numbers of ranks.
    """
    name = answers.name or re.sub(r"[^A-Za-z0-9_-]+", "-", project.folder.resolve().name).strip("-") or "my-campaign"
    run = answers.run or DEFAULT_RUN
    ranks = [] if not (project.uses_mpi or answers.ranks) else list(answers.ranks or first_ranks(cores))
    sizes = {parameter: answers.sizes.get(parameter, ()) for parameter in (*parameters_of(run), *answers.sizes)}
    if ranks:
        sizes.pop("p", None)
    lines = [
        "# A campaign: which program, how it is built and run, what is varied. Places marked with <- need a look.",
        "# Find mistakes with `buran check`, see what would be measured with `buran plan`, measure with `buran run`.",
        "",
        f"name: {name}",
        "results: results",
        "",
        *_target_lines(project, source, answers, run),
        "",
        "parameters:",
    ]
    if ranks:
        lines.append(_marked(f"  p: {{role: ranks, values: {_list(ranks)}}}", "" if answers.ranks else "MPI ranks"))
    for parameter, values in sizes.items():
        todo = "" if values else "or range: {start: 10, stop: 50, step: 10}"
        lines.append(_marked(f"  {parameter}: {{role: size, values: {_list(values or _SIZES)}}}", todo))
    largest = {
        **({"p": ranks[-1]} if ranks else {}),
        **{parameter: (values or _SIZES)[-1] for parameter, values in sizes.items()},
    }
    point = ", ".join(f"{key}: {2 * value}" for key, value in largest.items())
    limits = f"resources: {{{'' if ranks else 'ranks: 1, '}time_limit_s: 600}}"
    lines += [
        "",
        '# constraints: ["is_cube(p)", "n % 10 == 0", "p * n <= 4096"]',
        f"# evaluation_points: [{{{point}}}]  # measured, but never used for modelling",
        "",
        "repetitions: 3",
        _marked(
            f"budget: {{core_hours: {answers.core_hours or 2.0:g}}}",
            "" if answers.core_hours else "of all runs together",
        ),
        _marked(limits, "a run that takes longer is stopped"),
        f"# refinement: {{target: {{{point}}}}}  # the point of interest: what matters there stays instrumented",
        "",
    ]
    return "\n".join(lines)


def _target_lines(project: Project, source: str, answers: Answers, run: str) -> list[str]:
    binary = answers.binary or (project.binaries[0] if project.binaries else "program")
    others = ", ".join(other for other in project.binaries if other != binary)
    todo = (
        "" if answers.binary else "what the build makes" if not project.binaries else f"or {others}" if others else ""
    )
    return [
        "target:",
        f"  source: {_text(source)}  # copied before it is built",
        *(f"  # {remark}" for remark in project.remarks),
        f"  build: {_text(project.build)}",
        *(['  flags: "-O2"'] if "{flags}" in project.build else []),
        _marked(f"  binary: {_text(binary)}", todo),
        _marked(
            f"  run: {_text(run)}", "" if answers.run else "its arguments, without the launcher; parameters in braces"
        ),
    ]


def _marked(line: str, todo: str) -> str:
    return f"{line}  # <- {todo}" if todo else line


def _text(value: str) -> str:
    return value if re.fullmatch(r"[A-Za-z0-9_./-]+", value) else json.dumps(value, ensure_ascii=False)


def _list(values: Sequence[Number]) -> str:
    return f"[{', '.join(f'{value:g}' if isinstance(value, float) else str(value) for value in values)}]"


def relative_source(project: Path, beside: Path) -> str:
    """Name a project's folder as seen from a campaign file's folder."""
    return os.path.relpath(project.resolve(), beside.resolve())
