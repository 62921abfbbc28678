"""``buran init --from``: a campaign file for a project that has build files."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from buran.cli.arguments import CAMPAIGN_FILE
from buran.cli.init import refuse_existing, write_campaign
from buran.errors import BuranError, Exit, UsageError
from buran.wording import counted

if TYPE_CHECKING:
    from buran.plugins.project.campaign_text import Answers, Number
    from buran.plugins.project.examine import Project
    from buran.plugins.project.repeats import Shown

_Read = TypeVar("_Read")

_SYSTEMS = ("cmake", "meson", "autotools", "make")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--from",
        dest="project",
        type=Path,
        metavar="PROJECT",
        help="folder with a Makefile, or files of autotools, CMake or Meson",
    )
    project = parser.add_argument_group("what is known of the project; on a terminal, questions cover the rest")
    project.add_argument("--system", choices=_SYSTEMS, help="where a project has several (default cmake)")
    project.add_argument(
        "--makefile", type=Path, metavar="FILE", help="which one, relative to PROJECT (default: found)"
    )
    project.add_argument("--name", help="of the campaign (default: the project's folder)")
    project.add_argument("--binary", help="what the build makes, relative to PROJECT")
    project.add_argument(
        "--run", dest="command", metavar="COMMAND", help="such as '{binary} -s {n}'; parameters in braces"
    )
    project.add_argument("--ranks", metavar="1,2,4", help="numbers of MPI ranks")
    project.add_argument(
        "--size", metavar="n=16,32", action="append", default=[], help="values of a parameter (repeatable)"
    )
    project.add_argument(
        "--point", metavar="p=64,n=512", help="the point of interest; parameters without values get some below it"
    )
    project.add_argument("--core-hours", type=float, metavar="H", help="budget")
    project.add_argument("--no-build", action="store_true", help="do not try the build in a scratch folder")
    project.add_argument("--yes", action="store_true", help="ask nothing; what is unknown is marked in the file")


def run(arguments: argparse.Namespace) -> int | None:
    """Write a file for a project that is named, here or on the terminal; without one, leave it to `buran init`."""
    if arguments.example:
        if arguments.project is not None:
            raise UsageError("--from is not allowed with --example", hint="leave one of them out")
        return None
    may_ask = not arguments.yes and sys.stdin.isatty() and sys.stdout.isatty()
    if may_ask or arguments.project is not None:
        refuse_existing(arguments.folder, [arguments.folder / CAMPAIGN_FILE])
    if may_ask and arguments.project is None:
        answer = _ask("Folder with the sources of your program (Enter for a template)", "")
        arguments.project = Path(answer) if answer else None
    return None if arguments.project is None else _for_project(arguments, may_ask)


def _for_project(arguments: argparse.Namespace, may_ask: bool) -> int:
    from buran.campaign.launcher import usable_cores
    from buran.plugins.project.campaign_text import campaign_text, relative_source, steps_of
    from buran.plugins.project.examine import examine_project

    answers = _answers(arguments)
    project, shown = examine_project(arguments.project, arguments.system, arguments.makefile), ""
    if project.failure is not None:
        print(project.failure, file=sys.stderr)
    if not arguments.no_build:
        project, shown = _tried(project)
    known = [name for name in project.binaries if Path(name).name == answers.binary]
    if len(known) == 1:  # said without the folder of the build
        answers = replace(answers, binary=known[0])
    if not answers.run:
        answers = replace(answers, run=_run_from_help(shown, [*answers.sizes, *answers.point]))
    if may_ask:
        print("\n".join(project.remarks))
        answers = _answered(project, answers)
    written = partial(
        campaign_text, project, relative_source(project.folder, arguments.folder), answers, usable_cores()
    )
    text = written()
    if not arguments.no_build:
        text = written({name: _counted(text, project, name) for name in steps_of(answers)})
    write_campaign(arguments.folder, text)
    path = arguments.folder / CAMPAIGN_FILE
    print(f"wrote {path}: {project.build}")
    _say_mistakes(path)
    marked = text.count("# <-")
    look = f"fill in what is marked with <- ({counted(marked, 'value')}), then: " if marked else ""
    print(f"next: {look}cd {arguments.folder} && buran check")
    return int(Exit.DONE)


def _tried(project: Project) -> tuple[Project, str]:
    """Build it once; a machine that cannot build leaves what the files say."""
    from buran.errors import ToolError
    from buran.plugins.project.trial import tried

    print("building it once in a scratch folder, to see what comes of it (--no-build leaves that out)", flush=True)
    try:
        return tried(project, lambda line: print(f"  {line}", flush=True))
    except ToolError as error:
        print(f"  not built: {error.what}")
        return project, ""


def _counted(text: str, project: Project, name: str) -> Shown | None:
    """Count it at few steps; a campaign with mistakes, or a machine that cannot, leaves what the name says."""
    from buran.plugins.project.repeats import shown_by_counts

    print(f"counting it at few {name}, to see whether each repeats its work (--no-build leaves that out)", flush=True)
    try:
        shown = shown_by_counts(text, project.folder, name)
    except BuranError as error:
        print(f"  not counted: {error.what}")
        return None
    if shown is None:
        print("  not counted: a run failed or took too long")
    return shown


def _run_from_help(shown: str, names: list[str]) -> str:
    """Return the command that a program's help gives for these parameters; empty where it does not know them all."""
    from buran.plugins.project.trial import option_of

    options = [option_of(name, shown) for name in dict.fromkeys(names) if name != "p"]
    return " ".join(["{binary}", *filter(None, options)]) if options and all(options) else ""


def _point(text: str) -> dict[str, Number]:
    point: dict[str, Number] = {}
    for word in filter(None, text.split(",")):
        name, _, value = word.partition("=")
        try:
            point[name.strip()] = float(value) if "." in value or "e" in value else int(value)
        except ValueError:
            raise UsageError(f"--point {text!r} is not understood", hint="write it as p=64,n=512") from None
    return point


def _answers(arguments: argparse.Namespace) -> Answers:
    from buran.plugins.project.campaign_text import Answers

    sizes = {}
    for text in arguments.size:
        name, equals, values = text.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--size {text!r} is not understood", hint="write it as n=16,32,64")
        sizes[name] = _numbers(values, "--size")
    ranks = _ranks(arguments.ranks, "--ranks") if arguments.ranks else ()
    point, run = _point(arguments.point or ""), arguments.command or ""
    for name in (*sizes, *point):
        if run and name != "p" and not re.search(rf"\{{[^}}]*\b{re.escape(name)}\b", run):
            raise UsageError(
                f"--run {run!r} has no {{{name}}}",
                why=f"--size or --point gives {name}",
                hint=f"write {{{name}}} in it",
            )
    return Answers(
        arguments.name or "",
        arguments.binary or "",
        run,
        ranks,
        sizes,
        arguments.core_hours,
        point,
    )


def _numbers(text: str, where: str) -> tuple[Number, ...]:
    try:
        numbers = tuple(
            float(word) if "." in word or "e" in word else int(word) for word in text.split(",") if word.strip()
        )
    except ValueError:
        numbers = ()
    if len(set(numbers)) < 2 or min(numbers) <= 0:
        raise UsageError(f"{where}: at least two different positive numbers are needed, not {text!r}", hint="16,32,64")
    return tuple(sorted(set(numbers)))


def _ranks(text: str, where: str) -> tuple[int, ...]:
    return tuple(int(value) for value in _numbers(text, where))


def _answered(project: Project, answers: Answers) -> Answers:
    """Ask for what was not said."""
    from buran.campaign.launcher import usable_cores
    from buran.plugins.project.campaign_text import first_ranks, parameters_of, proposed_run

    if not answers.binary:
        choices = f", one of {', '.join(project.binaries)}" if len(project.binaries) > 1 else ""
        binary = _ask(f"What the build makes{choices}", project.binaries[0] if project.binaries else "program")
        answers = replace(answers, binary=binary)
    if not answers.run:
        answers = replace(answers, run=_ask("How it is run, with parameters in braces", proposed_run(answers)))
    if project.uses_mpi and not answers.ranks:
        proposed = ",".join(map(str, first_ranks(usable_cores())))
        answers = replace(answers, ranks=_read_numbers("Numbers of MPI ranks", proposed, _ranks))
    for name in parameters_of(answers.run):
        if name not in answers.sizes and name != "p":
            values = _read_numbers(f"Values of {name}", "16,32,64,128,256", _numbers)
            answers = replace(answers, sizes={**answers.sizes, name: values})
    if answers.core_hours is None:
        hours = _read_numbers("Budget in core hours", "2", lambda text, where: (float(text),))
        answers = replace(answers, core_hours=hours[0])
    return answers


def _read_numbers(question: str, proposed: str, read: Callable[[str, str], _Read]) -> _Read:
    while True:
        try:
            return read(_ask(question, proposed), question)
        except (UsageError, ValueError) as error:
            print(error, file=sys.stderr)


def _ask(question: str, proposed: str) -> str:
    try:
        answer = input(f"{question}{f' [{proposed}]' if proposed else ''}: ").strip()
    except EOFError:
        print()
        answer = ""
    return answer or proposed


def _say_mistakes(path: Path) -> None:
    """Name what `buran check` would find: only what was said by hand can be wrong."""
    from buran.campaign.load import load_campaign
    from buran.campaign.mistakes import CampaignError

    try:
        load_campaign(path)
    except CampaignError as error:
        others = [mistake for mistake in error.mistakes if mistake.path]  # values to fill in are counted anyway
        if others:
            print(f"it still has mistakes: {CampaignError(others)}", file=sys.stderr)
