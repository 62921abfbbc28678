"""What a campaign file's shape cannot say: checks of names, values, commands and folders."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from buran.campaign.config import Campaign
from buran.campaign.document import below
from buran.campaign.expressions import FUNCTIONS
from buran.campaign.launcher import launcher_names
from buran.campaign.mistakes import KeyPath, Mistake, TextError, did_you_mean, listed, no_parameter
from buran.campaign.point import Point, Value
from buran.campaign.resources import Input
from buran.campaign.sections import ParameterKeys
from buran.campaign.shape import COMMAND, CampaignFile
from buran.campaign.space import along_axes, check_target_value, parameter_values
from buran.campaign.strategies import BACKENDS, BUILT_IN, KEYS, abilities_of
from buran.errors import PluginError, UsageError
from buran.features import simulated
from buran.profiles.extrap_names import extrap_names
from buran.profiles.metrics import metric_of
from buran.wording import Category

COMPILERS = ("cc", "cxx", "fc", "mpicc", "mpicxx", "mpifort")
_OF_STEPS = "steps have one key, value, the full number: {role: steps, value: 600}; with values of your own, use size"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")
_STARTERS = ("mpirun", "mpiexec", "srun", "aprun", "jsrun", "orterun", "prun", "flux")
_RESERVED = (*COMPILERS, "flags", "binary", "build", "command", "nodes", "ranks_per_node")


def of_file(config: CampaignFile, folder: Path) -> Iterator[Mistake]:
    """Check a file that lies in a folder, as far as that needs no expressions."""
    yield from _name_mistakes(config)
    yield from _role_mistakes(config)
    yield from _value_mistakes(config)
    for key, points in (("points", config.points or ()), ("evaluation_points", config.evaluation_points)):
        yield from _point_mistakes(config, key, [{**config.steps, **point} for point in points])
    yield from _source_mistakes(config, folder)
    yield from _input_mistakes(config, folder)
    yield from choice_mistakes(config)


def of_campaign(campaign: Campaign) -> Iterator[Mistake]:
    """Check a campaign whose file is right."""
    yield from _full_step_mistakes(campaign)
    yield from _partition_mistakes(campaign)
    yield from _budget_mistakes(campaign)


def _budget_mistakes(campaign: Campaign) -> Iterator[Mistake]:
    """Check that the budget pays for the first plan."""
    points = along_axes(campaign.points, campaign.parameters, 2)
    first, full = (campaign.minimum_core_hours(each, campaign.repetitions) for each in (points, campaign.full_matrix))
    budget = campaign.config.budget.in_force(full)
    if first is not None and budget is not None and first > budget:
        what = f"the budget of {budget:.4g} core hours is below the first plan, {first:.4g}"
        hint = "raise the budget, or take fewer or cheaper points and repetitions"
        yield Mistake(("budget",), what, "less than the first plan gives no models", hint)


def _name_mistakes(config: CampaignFile) -> Iterator[Mistake]:
    """Check the names of parameters and values."""
    roles = {name: keys.role for name, keys in config.parameters.items()}
    named = [*(("values", name, None) for name in config.values), *(("parameters", *each) for each in roles.items())]
    for section, name, role in named:
        why = None
        if not _NAME.fullmatch(name):
            why = "a name begins with a letter and has at most 32 letters, digits and _"
        elif keyword.iskeyword(name) or name in FUNCTIONS:
            why = "it is a word of expressions"
        elif name in _RESERVED or (name in ("ranks", "threads") and role != name):
            why = f"the placeholder {{{name}}} has a meaning of its own"
        elif role is None and name in roles:
            why = "it is a parameter"
        if why is not None:
            yield Mistake((section, name), f"{name!r} cannot be the name of a {section.removesuffix('s')}", why)
    try:
        extrap_names(tuple(config.parameters))
    except UsageError as error:
        yield Mistake(("parameters",), error.what, error.why, error.hint)


def _role_mistakes(config: CampaignFile) -> Iterator[Mistake]:
    """Check that one parameter at most says how many ranks or threads there are."""
    for role in ("ranks", "threads"):
        names = [name for name, parameter in config.parameters.items() if parameter.role == role]
        formula = getattr(config.resources, role)
        if len(names) > 1:
            what = f"{' and '.join(names)} both have the role {role}"
            hint = f'give them the role size, and write resources.{role}: "{" * ".join(names)}"'
            yield Mistake(("parameters", names[1], "role"), what, "one parameter at most can have it", hint)
        elif names and formula is not None and str(formula).strip() != names[0]:
            what = f"{formula!r} contradicts the parameter {names[0]!r}, whose role is {role}"
            yield Mistake(("resources", role), what, hint=f"leave it out, or give {names[0]!r} the role size")


def _value_mistakes(config: CampaignFile) -> Iterator[Mistake]:
    """Check the parameters' own values."""
    for name, parameter in config.parameters.items():
        path = ("parameters", name)
        present = [key for key in ("values", "range") if getattr(parameter, key) is not None]
        if parameter.role == "steps":
            if present or parameter.value is None or config.points is not None:
                what = f"{name!r} has the role steps, for which Buran chooses the numbers"
                yield Mistake((*path, *present[:1]), what, "values and points cannot be given with it", _OF_STEPS)
        elif parameter.value is not None:
            yield Mistake((*path, "value"), f"{name!r} has a value, but its role is {parameter.role}", hint=_OF_STEPS)
        elif config.points is not None:
            for key in present:
                hint = f"write its role alone: `{name}: {{role: {parameter.role}}}`"
                yield Mistake((*path, key), f"{name!r} must not have {key} of its own", "points are listed", hint)
        elif len(present) != 1:
            what = f"{name!r} has {'both values and range' if present else 'neither values nor range'}"
            yield Mistake(path, what, "one of them is needed, unless points are listed one by one")
        else:
            yield from _listed_value_mistakes(name, parameter, (*path, present[0]))


def _listed_value_mistakes(name: str, parameter: ParameterKeys, path: KeyPath) -> Iterator[Mistake]:
    values = parameter_values(parameter)
    if not values:
        yield Mistake(path, f"{name!r} has no values", "at least two are needed")
    elif len(set(values)) == 1:
        yield _single_value(path, name, values[0])
    paths = [(*path, i) if parameter.range is None else path for i in range(len(values))]
    for i, value in enumerate(values):
        if value in values[:i]:
            yield Mistake(paths[i], f"the value {value} stands twice", hint="leave one of them out")
    yield from _kind_mistakes(name, parameter, list(zip(paths, values, strict=True)))


def _kind_mistakes(name: str, parameter: ParameterKeys, values: Sequence[tuple[KeyPath, Value]]) -> Iterator[Mistake]:
    """Check that values suit a parameter's role: words are for choices, and ranks and threads are whole."""
    role = parameter.role
    words = [(path, value) for path, value in values if isinstance(value, Category)]
    numbers = [(path, value) for path, value in values if not isinstance(value, Category)]
    if words and role != "choice":
        path, word = words[0]
        why = f"{word} is a word, and {name!r} has the role {role}"
        yield Mistake(path, f"{str(word)!r} is not a number", why, "write role: choice, or numbers")
    elif words and numbers:
        path, word = words[0]
        why = f"{word} is a word, {numbers[0][1]} a number"
        yield Mistake(path, f"{name!r} has words and numbers", why, f"write v{numbers[0][1]}, or another word")
    for path, number in numbers if role in ("ranks", "threads") else ():
        if isinstance(number, float):
            yield Mistake(path, f"{number} is not allowed", f"{role} must be whole numbers")


def _is_unfinished(config: CampaignFile, name: str) -> bool:
    """Tell whether a parameter has no full number of steps, which is a mistake of its own."""
    return config.parameters[name].role == "steps" and name not in config.steps


def _point_mistakes(config: CampaignFile, key: str, points: Sequence[Mapping[str, Value]]) -> Iterator[Mistake]:
    """Check that each listed point has all parameters, no others, and stands there once."""
    parameters, before = tuple(config.parameters), set[Point]()
    for i, point in enumerate(points):
        for name in point:
            if name not in parameters:
                yield no_parameter((key, i), name, parameters)
        if absent := [name for name in parameters if name not in point and not _is_unfinished(config, name)]:
            yield Mistake((key, i), f"the point has no value for {' and '.join(absent)}")
        if (whole := Point.of(point)) in before:
            yield Mistake((key, i), f"the point {whole} stands twice", hint="leave one of them out")
        before.add(whole)
    for name, parameter in config.parameters.items():
        values = [((key, i), point[name]) for i, point in enumerate(points) if name in point]
        yield from _kind_mistakes(name, parameter, values)
        if key == "points" and len({value for _, value in values}) == 1:
            yield _single_value((key,), name, values[0][1])


def _full_step_mistakes(campaign: Campaign) -> Iterator[Mistake]:
    """Check that the points chosen from hold the full numbers of steps, and that a strategy chooses."""
    if campaign.steps and not campaign.full_matrix:
        full = " and ".join(f"{name} = {value}" for name, value in campaign.steps.items())
        what = f"no point with {full} fulfils all constraints"
        yield Mistake(("constraints",), what, "one proves that few steps stand for all", "relax a constraint")
    for name in campaign.steps:
        if abilities_of(campaign.config.strategy.name).all_at_once:
            what = f"{name!r} has the role steps, but the strategy {campaign.config.strategy.name!r} runs every point"
            why = "few steps stand for all only where a strategy chooses"
            yield Mistake(("strategy", "name"), what, why, "write strategy: {name: design}, or give it the role size")


def word_mistakes(config: CampaignFile, modelled: Sequence[Mapping[str, Value]]) -> Iterator[Mistake]:
    """Check that the target and evaluation points have no other words than the points that are modelled."""
    others: list[tuple[KeyPath, Mapping[str, object]]] = [(("target",), config.target or {})]
    others += [(("evaluation_points", i), point) for i, point in enumerate(config.evaluation_points)]
    for name in config.parameters:
        known = {str(point[name]) for point in modelled if isinstance(point.get(name), Category)}
        for path, point in others if known else ():
            if name in point and str(point[name]) not in known:
                what, why = f"{point[name]} is no value of {name}", f"the values are {listed(sorted(known))}"
                yield Mistake((*path, name), what, why, did_you_mean(str(point[name]), known))


def _single_value(path: KeyPath, name: str, value: Value) -> Mistake:
    """Return the mistake of a parameter that does not vary."""
    return Mistake(
        path,
        f"{name!r} has only one value, {value}",
        "from one value nothing can be learnt about its influence",
        f"add values, or drop the parameter and write {value} into the commands",
    )


def command_mistakes(
    config: CampaignFile, run_names: Collection[str], build_names: Collection[str], environments: Collection[str]
) -> Iterator[Mistake]:
    """Check that commands use what they must.

    Parameters
    ----------
    run_names, build_names
        Placeholders of the commands.
    environments
        Those in use.
    """
    program = config.program
    if config.backend != COMMAND and not {"mpicc", "mpicxx", "mpifort"} & set(build_names):
        why = "nothing else compiles the program with instrumentation"
        hint = "hand {mpicc}, {mpicxx} or {mpifort} to the build, as in: make MPICXX={mpicxx}"
        yield Mistake(("program", "build"), "the build command uses none of {mpicc}, {mpicxx} and {mpifort}", why, hint)
    given: list[KeyPath] = [("program", "flags")] if "flags" in program.model_fields_set and program.flags else []
    used = ((name, keys) for name, keys in config.environments.items() if name in environments)
    given += [("environments", name, "extra_flags") for name, keys in used if keys.extra_flags]
    for path in given if "flags" not in build_names else ():
        hint = "hand them over, as in: make CXXFLAGS='{flags}'"
        yield Mistake(path, "the build command never uses {flags}", hint=hint)
    if "binary" not in run_names:
        hint = "write, for example: {binary} {n}"
        yield Mistake(("program", "run"), "the run command never uses {binary}", hint=hint)
    starter = program.run.split()[0] if program.run.split() else ""
    if starter in _STARTERS and all(environment.launcher != "none" for environment in config.environments.values()):
        why = "Buran puts the launcher in front of the command, so ranks would start ranks"
        hint = (
            f"begin with {{binary}}; a launcher with options: environments.NAME.launcher: '{starter} ... {{command}}'"
        )
        yield Mistake(("program", "run"), f"the run command begins with {starter}", why, hint)


def _source_mistakes(config: CampaignFile, folder: Path) -> Iterator[Mistake]:
    """Check that the source folder is there."""
    source = config.program.source
    path = below(folder, source)
    if not path.is_dir():
        git = "://" in source or source.endswith(".git") or source.startswith("git@")
        hint = f"`git clone {source}`, and name its folder" if git else "paths are relative to the campaign file"
        why = f"{path} is a file" if path.exists() else f"there is no folder {path}"
        yield Mistake(("program", "source"), f"the source folder {source!r} is missing", why, hint)
    if config.simulated is not None and not below(folder, config.simulated).is_file():
        why = f"there is no file {below(folder, config.simulated)}"
        yield Mistake(("simulated",), f"the description of the program {config.simulated!r} is missing", why)
    elif config.simulated is None and config.backend == "simulated":
        what, hint = "it is not said what is simulated", "name the description of a program: simulated: program.yaml"
        yield Mistake(("backend",), what, hint=hint)
    if config.backend not in BACKENDS.names:
        try:
            BACKENDS.load(config.backend)
        except UsageError as error:
            yield Mistake(("backend",), error.what, error.why, error.hint)


def _input_mistakes(config: CampaignFile, folder: Path) -> Iterator[Mistake]:
    """Check that what runs read is there."""
    names = set[str]()
    for i, written in enumerate(config.program.inputs):
        entry, path = Input.of(written, folder), ("program", "inputs", i)
        if entry.path.is_absolute() and not entry.path.exists():
            why, hint = f"there is no {entry.path}", "paths are relative to the campaign file, or begin with {build}"
            yield Mistake(path, "an input is missing", why, hint)
        if entry.fill and (entry.link or not entry.path.is_absolute() or entry.path.is_dir()):
            why = "it is read before anything is built, and each run gets a text of its own"
            hint = "name one file next to the campaign file, without link: true"
            yield Mistake((*path, "fill"), f"values cannot be put into {entry.name!r}", why, hint)
        if entry.name in names and entry.name != ".":
            yield Mistake(path, f"two inputs have the name {entry.name!r}", hint="give one of them another name")
        names.add(entry.name)


def _partition_mistakes(campaign: Campaign) -> Iterator[Mistake]:
    """Check that each point belongs to one of the partitions, if there are some."""
    partitions = campaign.config.resources.partitions
    points = (*campaign.points, *campaign.evaluation_points) if partitions else ()
    if lost := sorted({campaign.ranks(point) for point in points if campaign.partition(point) is None}):
        why = ", ".join(f"{name} takes {keys.ranks}" for name, keys in partitions.items())
        hint = "widen `ranks`, take these points out, or name one partition for all: resources.partition"
        yield Mistake(("resources", "partitions"), f"no partition takes {listed(lost)} ranks", why, hint)


def reach_mistakes(
    config: CampaignFile, environment: str, used: Collection[str], formulas: Mapping[str, Collection[str]]
) -> Iterator[Mistake]:
    """Check that every parameter reaches the program, and that ranks reach the launcher.

    Parameters
    ----------
    used
        Placeholders of the build and run commands.
    formulas
        Parameters that decide ranks and threads, by ``ranks`` and ``threads``.
    """
    machine = simulated(config.environments[environment])
    used = {*used, *(() if machine is None else machine.changing)}
    through = {*used, *launcher_names(config.environments[environment])}
    if formulas["ranks"] and "ranks" not in through and not set(formulas["ranks"]) & set(used):
        launcher = config.environments[environment].launcher
        what = f"the number of ranks varies, but neither the launcher {launcher!r} nor the run command uses it"
        hint = "use launcher: auto, or {ranks} in the launcher's template or the run command"
        yield Mistake(("environments", environment, "launcher"), what, hint=hint)
        through.add("ranks")  # one mistake is enough
    reached = set(used).union(*(names for kind, names in formulas.items() if kind in through))
    for name in config.parameters:
        if name not in reached:
            what = f"the parameter {name!r} never reaches the program"
            why = "neither the build nor the run command uses it, nor do ranks and threads depend on it"
            hint = f"write {{{name}}} into program.run, or into a file, with inputs: [{{path: FILE, fill: true}}]"
            yield Mistake(("parameters", name), what, why, hint)


def choice_mistakes(config: CampaignFile) -> Iterator[Mistake]:
    """Check metrics, modelling and refinement."""
    for name in config.model.space:
        if name not in config.parameters:
            yield no_parameter(("model", "space", name), name, tuple(config.parameters))
    yield from _command_mistakes(config)
    yield from _strategy_mistakes(config)
    yield from _refinement_mistakes(config)


_OF_REFINEMENTS = {
    **dict.fromkeys(("overhead_percent", "constants", "closure"), ("relevance",)),
    "threshold": ("filter", "filter-and-expand"),
}
"""Keys of a campaign file's `refinement` that only some of its strategies heed, with these."""


def _refinement_mistakes(config: CampaignFile) -> Iterator[Mistake]:
    refinement = config.refinement
    if config.goal == "filter" and not refinement.enabled:
        hint = "set refinement.enabled: true, or another goal"
        yield Mistake(("goal",), "a filter is the goal, but refinement is switched off", hint=hint)
    absent = [metric for metric in ("time", "visits") if metric not in config.metrics]
    if refinement.enabled and absent:
        what = f"refinement needs the metric {' and '.join(absent)}"
        yield Mistake(("metrics",), what, hint="add it, or set refinement.enabled: false")
    for key, able in _OF_REFINEMENTS.items():
        written = key in refinement.model_fields_set and getattr(refinement, key) is not None
        if refinement.enabled and refinement.strategy not in able and written:
            what = f"the refinement {refinement.strategy!r} knows no {key}"
            yield Mistake(("refinement", key), what, f"it is of {listed(able)}", "leave it out")
    if config.target is not None:
        yield from _target_mistakes(config, {**config.steps, **config.target})


def _command_mistakes(config: CampaignFile) -> Iterator[Mistake]:
    command = config.command
    if config.backend != COMMAND:
        if command != type(command)():
            yield Mistake(("command",), "this section has no effect", hint=f"write backend: {COMMAND}, or leave it out")
        return
    for i, name in enumerate(config.metrics):
        if metric_of(name).counted:
            why = "Buran's own measurement system counts them, in builds of their own"
            yield Mistake(("metrics", i), f"{name!r} is not available with backend: {COMMAND}", why, "leave it out")
    if config.refinement.enabled:
        why = "what is measured is decided by the program, or by its tool"
        hint = "leave refinement.enabled out"
        yield Mistake(("refinement", "enabled"), f"there are no filters with backend: {COMMAND}", why, hint)
    if command.profile is None:
        for key in ("afterwards", "format", "further_metrics"):
            if getattr(command, key):
                yield Mistake(("command", key), "there is no profile that this is about", hint="add command.profile")


def _strategy_mistakes(config: CampaignFile) -> Iterator[Mistake]:
    strategy = config.strategy
    set_keys = [key for key in sorted(KEYS) if getattr(strategy, key) is not None]
    if not set_keys and strategy.name in BUILT_IN:
        return  # without loading it, which takes a second
    try:
        abilities = abilities_of(strategy.name)
    except (PluginError, UsageError) as error:
        yield Mistake(("strategy", "name"), error.what, error.why, error.hint)
        return
    for key in set_keys:
        if key not in abilities.keys:
            able = [name for name in BUILT_IN if key in abilities_of(name).keys]
            what = f"the strategy {strategy.name!r} knows no {key}"
            yield Mistake(
                ("strategy", key), what, f"only {listed(able)} {'does' if len(able) == 1 else 'do'}", "leave it out"
            )


def _may_have_words(parameter: ParameterKeys) -> bool:
    numbers = parameter.values is not None and not any(isinstance(value, Category) for value in parameter.values)
    return parameter.role == "choice" and parameter.range is None and not numbers


def _target_mistakes(config: CampaignFile, target: Mapping[str, Value | str]) -> Iterator[Mistake]:
    path, parameters = ("target",), config.parameters
    for name, value in target.items():
        if name not in parameters:
            yield no_parameter((*path, name), name, tuple(parameters))
        elif isinstance(value, str) and _may_have_words(parameters[name]):
            continue  # `word_mistakes` knows which there are
        elif parameters[name].role in ("ranks", "threads") and isinstance(value, float) and not value.is_integer():
            yield Mistake((*path, name), f"{value:g} is not allowed", f"{parameters[name].role} must be whole numbers")
            continue
        try:
            check_target_value(value, tuple(parameters))
        except TextError as error:
            yield Mistake((*path, name), error.what)
    for name in parameters:
        if name not in target and not _is_unfinished(config, name):
            hint = f"add one, as in `target: {{{name}: 1024, ...}}`, beyond the measured values or among them"
            yield Mistake(path, f"the target has no value for {name}", hint=hint)
