"""How an MPI program is started: environments, and from a command to arguments and environment variables."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from buran.campaign.mistakes import Mistake, did_you_mean
from buran.campaign.sections import EnvironmentKeys
from buran.campaign.shape import COMMAND, CampaignFile
from buran.campaign.template import Template, TemplateError, parse_template, parse_words

LAUNCHERS = ("auto", "openmpi", "mpich", "srun", "none")
PLACEHOLDERS = ("command", "ranks", "threads", "nodes", "ranks_per_node")
_AS_ROOT = MappingProxyType({"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
_PROGRAMS = MappingProxyType({"openmpi": "mpirun", "mpich": "mpiexec", "srun": "srun"})
_SESSION_BASES = tuple(f"OMPI_MCA_orte_{where}tmpdir_base" for where in ("", "local_", "remote_"))


@dataclass(frozen=True)
class Placement:
    """How many processes and threads on how many nodes; without `tasks_per_node`, evenly."""

    ranks: int
    threads: int = 1
    nodes: int = 1
    tasks_per_node: int | None = None

    @property
    def ranks_per_node(self) -> int:
        """Ranks on the fullest node."""
        return -(-self.ranks // self.nodes) if self.tasks_per_node is None else self.tasks_per_node


@dataclass(frozen=True)
class Launch:
    """A command line and the environment variables it needs."""

    argv: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


def launch(
    kind: str,
    command: Sequence[str],
    placement: Placement,
    *,
    program: str | None = None,
    oversubscribe: bool = False,
    as_root: bool = False,
) -> Launch:
    """Put a launcher in front of a command.

    Parameters
    ----------
    kind
        ``openmpi``, ``mpich``, ``srun``, ``none``, or a template with `PLACEHOLDERS`.
    program
        The launcher's program, instead of the one that is usual for its kind.
    oversubscribe
        Whether a node gets more ranks and threads than it has cores: then nothing is bound.
    as_root
        Whether the user is root, whom Open MPI refuses by default.
    """
    first = program or _PROGRAMS.get(kind, "")
    match kind:
        case "none":
            return Launch(tuple(command))
        case "openmpi":
            spread = _openmpi_placement(placement, oversubscribe)
            argv = (first, "-n", str(placement.ranks), *spread, *command)
            return Launch(argv, dict(_AS_ROOT) if as_root else {})
        case "mpich":
            spread = _mpich_placement(placement, oversubscribe)
            return Launch((first, "-n", str(placement.ranks), *spread, *command))
        case "srun":
            counts = ("-N", str(placement.nodes), "-n", str(placement.ranks), "-c", str(placement.threads))
            per_node = placement.tasks_per_node
            spread = () if per_node is None else (f"--ntasks-per-node={per_node}",)
            bind = ("--cpu-bind=none", "--overcommit") if oversubscribe else ("--cpu-bind=cores",)
            options = (*counts, *spread, *bind, "--kill-on-bad-exit=1")
            return Launch((first, *options, *command))
        case _:
            return Launch(_from_template(kind, command, placement))


def resolve(kind: str, mpi_flavour: str) -> str:
    """Return the launcher that ``auto`` stands for with an MPI: ``openmpi`` or ``mpich``."""
    return mpi_flavour if kind == "auto" else kind


def session_variable(mpi_flavour: str, nodes: int, variables: Collection[str]) -> str | None:
    """Return the variable that gives the MPI of a run a folder of its own for its files; None if it needs none.

    The runs of a user with Open MPI 4 share a folder, which is removed with the last run in it, be it that another
    is just starting; and what a killed run left there is found by those that get its process id later. Several nodes
    would need the folder on each, and who has set one of these variables knows why.
    """
    if mpi_flavour != "openmpi" or nodes > 1 or any(name in variables for name in _SESSION_BASES):
        return None
    return _SESSION_BASES[0]


def with_modules(script: str, modules: Sequence[str]) -> str:
    """Return a bash script that loads environment modules, or fails, before it goes on."""
    if not modules:
        return script
    # A job may start without the function `module`; a login shell would define it.
    define = "type module >/dev/null 2>&1 || . /etc/profile || exit 1"
    return f"{define}\nmodule load {shlex.join(modules)} || exit 1\n{script}"


def under_modules(argv: Sequence[str], modules: Sequence[str]) -> tuple[str, ...]:
    """Return a command that loads environment modules first; unchanged without modules."""
    if not modules:
        return tuple(argv)
    return ("bash", "-c", with_modules('exec "$@"', modules), "bash", *argv)


def cpus_in(text: str) -> set[int]:
    """Read a list of CPUs such as ``0-3,8``."""
    out = set[int]()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        out |= set(range(int(first), int(last or first) + 1))
    return out


def usable_cores() -> int:
    """Return how many physical cores this process may use; a core's hardware threads count once."""
    cores = set[tuple[str, str]]()
    for cpu in os.sched_getaffinity(0):
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
        try:
            cores.add(((topology / "physical_package_id").read_text(), (topology / "thread_siblings_list").read_text()))
        except OSError:
            cores.add(("", str(cpu)))
    return len(cores)


def _openmpi_placement(placement: Placement, oversubscribe: bool) -> tuple[str, ...]:
    per_node = f"ppr:{placement.ranks_per_node}:node"
    if oversubscribe:
        spread = ("--map-by", f"{per_node}:OVERSUBSCRIBE") if placement.nodes > 1 else ("--oversubscribe",)
        return (*spread, "--bind-to", "none")
    cores = f":PE={placement.threads}" if placement.threads > 1 else ""
    if placement.nodes > 1:
        return ("--map-by", per_node + cores, "--bind-to", "core")
    return ("--map-by", "slot" + cores, "--bind-to", "core")


def _mpich_placement(placement: Placement, oversubscribe: bool) -> tuple[str, ...]:
    spread = ("-ppn", str(placement.ranks_per_node)) if placement.nodes > 1 else ()
    return (*spread, "-bind-to", "none" if oversubscribe else f"core:{placement.threads}")


def _from_template(text: str, command: Sequence[str], placement: Placement) -> tuple[str, ...]:
    values = {name: str(getattr(placement, name)) for name in PLACEHOLDERS if name != "command"}
    argv: list[str] = []
    for word in shlex.split(text):
        template: Template = parse_template(word, PLACEHOLDERS)
        if template.names == ("command",) and not any(template.literals):
            argv.extend(command)
        else:
            argv.append(template.fill({**values, "command": shlex.join(command)}))
    return tuple(argv)


def environments_of(config: CampaignFile) -> list[str]:
    """Return the names of the environments in use, of which some may be missing."""
    chosen = config.environment
    if chosen not in config.parameters:
        return [chosen or next(iter(config.environments), "")]
    values = [*(config.parameters[chosen].values or ()), *(point.get(chosen, "") for point in config.points or ())]
    return list(dict.fromkeys(map(str, values))) or [""]


def environment_mistakes(config: CampaignFile, used: Sequence[str]) -> Iterator[Mistake]:
    """Check which environments are used, and all launchers."""
    names = tuple(config.environments)
    chosen: str | None = config.environment
    path = ("environment",)
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
