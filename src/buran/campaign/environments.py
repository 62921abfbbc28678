"""Environments: which of them a campaign uses, one or those that a parameter chooses from, and their launchers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from buran.campaign.launcher import LAUNCHERS, PLACEHOLDERS
from buran.campaign.mistakes import Mistake, did_you_mean
from buran.campaign.sections import EnvironmentKeys
from buran.campaign.shape import COMMAND, CampaignFile
from buran.campaign.template import TemplateError, parse_words


def environments_of(config: CampaignFile) -> list[str]:
    """Return the names of the environments in use, of which some may be missing."""
    chosen = config.environment
    if chosen not in config.parameters:
        return [chosen or next(iter(config.environments), "")]
    values = [*(config.parameters[chosen].values or ()), *(point.get(chosen, "") for point in config.points or ())]
    return list(dict.fromkeys(map(str, values))) or [""]


def environment_mistakes(config: CampaignFile, used: Sequence[str], *, written: bool) -> Iterator[Mistake]:
    """Check which environments are used, which the file may not have `written`, and all launchers."""
    names = tuple(config.environments)
    chosen: str | None = config.environment
    path = ("environment",) if written else ()
    if chosen in config.parameters and chosen in names:
        yield Mistake(path, f"{chosen!r} is an environment and a parameter", hint="give one of them another name")
    elif chosen in config.parameters:
        yield from _choice_mistakes(config, chosen, used)
    elif chosen is None and len(names) > 1:
        why, hint = f"there are: {', '.join(names)}", f"write at the top: environment: {names[0]}"
        yield Mistake(("environments",), "it is not said which environment is used", why, hint)
    elif chosen is not None and chosen not in names:
        why = f"there are: {', '.join(names)}"
        near = did_you_mean(chosen, (*names, *config.parameters))
        yield Mistake(path, f"there is no environment {chosen!r}", why, near)
    for name, environment in config.environments.items():
        yield from _launcher_mistakes(("environments", name, "launcher"), environment.launcher)
        for variable in environment.variables:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
                what = f"{variable!r} cannot be the name of an environment variable"
                yield Mistake(("environments", name, "variables", variable), what)
        if environment.compiler != "auto" and config.backend == COMMAND:
            why = f"with backend: {COMMAND} nothing is compiled by Buran's wrappers"
            hint = f"write variables that the build heeds, as in {{CC: {environment.compiler}}}"
            yield Mistake(("environments", name, "compiler"), "the compiler has no effect", why, hint)


def _choice_mistakes(config: CampaignFile, choice: str, names: Sequence[str]) -> Iterator[Mistake]:
    """Check that the words of a parameter are names of environments that may stand side by side."""
    role = config.parameters[choice].role
    if role != "choice":
        what, why = f"{choice!r} cannot choose environments", f"its role is {role}"
        yield Mistake(("environment",), what, why, "name an environment, or write role: choice")
        return
    for name in names:
        if name not in config.environments:
            why = f"{choice!r} chooses environments, of which there are: {', '.join(config.environments)}"
            hint = did_you_mean(name, tuple(config.environments))
            yield Mistake(("parameters", choice), f"there is no environment {name!r}", why, hint)


_LAUNCHER_HINTS = {
    **{program: f"write `auto`, or `{program} -n {{ranks}} {{command}}`" for program in ("mpirun", "mpiexec")},
    **dict.fromkeys(("intelmpi", "intel", "impi", "hydra"), "Intel MPI starts programs as MPICH does: write `mpich`"),
}


def _launcher_mistakes(path: tuple[str, ...], launcher: str) -> Iterator[Mistake]:
    if launcher in LAUNCHERS:
        return
    if not re.search(r"[\s{}]", launcher):
        why = f"launchers are {', '.join(LAUNCHERS)}, or a template such as: mpiexec -n {{ranks}} {{command}}"
        hint = _LAUNCHER_HINTS.get(launcher.lower()) or did_you_mean(launcher, LAUNCHERS)
        yield Mistake(path, f"unknown launcher {launcher!r}", why, hint)
        return
    try:
        words = parse_words(launcher, PLACEHOLDERS)
    except TemplateError as error:
        yield Mistake(path, error.what, hint=error.hint)
        return
    if not any("command" in word.names for word in words):
        hint = "write, for example: mpiexec -n {ranks} {command}"
        yield Mistake(path, "the launcher never uses {command}", hint=hint)


def launcher_names(environment: EnvironmentKeys) -> frozenset[str]:
    """Return which placeholders reach the launcher of an environment."""
    if environment.launcher == "none":
        return frozenset(("threads",))  # OMP_NUM_THREADS is set for every run
    if environment.launcher in LAUNCHERS:
        return frozenset(("ranks", "threads", "nodes"))
    return frozenset(
        name for word in parse_words(environment.launcher, PLACEHOLDERS) for name in (*word.names, "threads")
    )
