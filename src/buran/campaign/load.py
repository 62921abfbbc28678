"""Reading a campaign file: every mistake in it is found before anything is built or run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from buran.campaign import checks
from buran.campaign.config import Campaign
from buran.campaign.document import below, read_campaign_file
from buran.campaign.environments import environment_mistakes, environments_of, sharing_mistakes
from buran.campaign.expressions import (
    Expression,
    ExpressionError,
    Kind,
    compile_expression,
    has_grid,
    is_line,
    listed_for,
)
from buran.campaign.inputs import Input
from buran.campaign.mistakes import CampaignError, KeyPath, Mistake, listed, missing, no_parameter
from buran.campaign.point import Point, Value
from buran.campaign.resources import AUTO, Formulas, check_resource
from buran.campaign.shape import CampaignFile
from buran.campaign.space import (
    MOST_POINTS,
    Constraint,
    WrittenPoint,
    along_axes,
    holds,
    parameter_values,
    point_mistakes,
    product,
    read_points,
    satisfying,
)
from buran.campaign.steps import step_values
from buran.campaign.template import Template, TemplateError, parse_template, parse_words
from buran.campaign.validation import validate
from buran.campaign.yaml_document import YamlDocument
from buran.errors import ConfigError
from buran.features import FEATURES, simulated
from buran.wording import Category, counted, word_of

FEW_VALUES = 5  # fewer cannot distinguish growth classes


def load_campaign(path: Path, *, environment: str | None = None) -> Campaign:
    """Read and check a campaign file.

    Parameters
    ----------
    path
        The file.
    environment
        Environment to use instead of the one the file names.

    Raises
    ------
    CampaignError
        With all mistakes that could be found at once.
    """
    document = read_campaign_file(path)
    config, mistakes = validate(document)
    hint = "fill it in, and take the mark `# <-` away"
    collected = _Mistakes(document, mistakes)
    for file, line, comment in document.placeholders:
        collected.add(Mistake((), f"a value that is still to be filled in: {comment}", hint=hint, file=file, line=line))
    if config is None or any(len(mistake.path) == 1 for mistake in mistakes):
        collected.stop()
    assert config is not None
    try:
        return _Loading(config, collected, path.absolute(), environment).campaign()
    except OSError as error:
        why = f"{error.strerror}: {str(error.filename)[:200]}"
        raise CampaignError([Mistake((), "a path in the file cannot be looked at", why, "correct it", path)]) from None


class _Mistakes:
    """Collects mistakes; what follows from an earlier one in the same place is left out."""

    def __init__(self, document: YamlDocument, first: Sequence[Mistake]) -> None:
        self.document = document
        self.all = [document.located(mistake) for mistake in first]
        self.spoilt = {mistake.path[:-1] for mistake in first}
        if ("parameters",) in self.spoilt:  # names of parameters that are left out are not unknown
            self.spoilt.add(("target",))

    def add(self, *mistakes: Mistake) -> None:
        for mistake in mistakes:
            if not any(mistake.path[: len(path)] == path for path in self.spoilt):
                self.all.append(self.document.located(mistake))

    def stop(self) -> None:
        """Raise what was collected, in the order of the file."""
        if self.all:
            raise CampaignError(
                sorted(self.all, key=lambda mistake: (mistake.file != self.document.path, mistake.line))
            )


class _Loading:
    """One reading of one file: steps add mistakes, and stop only where the next needs their result."""

    def __init__(self, config: CampaignFile, mistakes: _Mistakes, path: Path, environment: str | None) -> None:
        self.config = config if environment is None else config.model_copy(update={"environment": environment})
        self.mistakes = mistakes
        self.path = path
        self.override = environment
        self.chosen_by = config.environment or ""
        self.names = tuple(config.parameters)
        self.values: dict[str, Expression] = {}

    def campaign(self) -> Campaign:
        config, mistakes = self.config, self.mistakes
        mistakes.add(*checks.name_mistakes(config), *checks.value_mistakes(config), *checks.choice_mistakes(config))
        mistakes.add(*checks.source_mistakes(config, self.path.parent))
        mistakes.add(*checks.input_mistakes(config, self.path.parent))
        points = self._listed_points()
        environments = environments_of(config, points or ())
        environment = environments[0]
        mistakes.add(*environment_mistakes(config, environments, written=self.override is None))
        for feature in FEATURES:
            mistakes.add(*(() if feature.mistakes is None else feature.mistakes(config, environment)))
        self._compile_values()
        build, run = self._commands(environments)
        filled = self._filled()
        constraints = self._constraints()
        formulas = self._formulas()
        of_run = tuple(name for word in run for name in word.names)
        of_inputs = tuple(name for line in chain(*filled.values()) for name in line.names if name not in of_run)
        placeholders = {"build": build.names, "run": of_run, "inputs": of_inputs}
        computed = self._computed(placeholders, formulas)
        evaluation = self._evaluation_points()
        mistakes.stop()
        assert formulas is not None
        used = {*build.names, *of_run, *of_inputs, self.chosen_by}
        used.update(name for expression in computed.values() for name in expression.names)
        influence = {"ranks": formulas.ranks.names, "threads": formulas.threads.names}
        reached = (checks.reach_mistakes(config, name, used, influence) for name in environments)
        sharing = (sharing_mistakes(config, config.environments[name]) for name in environments)
        mistakes.add(*dict.fromkeys(chain.from_iterable((*reached, *sharing))))
        kept, dropped, held_out = self._modelling_points(points, constraints, evaluation)
        points_of_runs = [*kept, *evaluation]
        others = [(("evaluation_points", i), at) for i, at in enumerate(config.evaluation_points)]
        mistakes.add(*checks.word_mistakes(config, kept, [*others, (("target",), config.target or {})]))
        self._check_resources(formulas, points_of_runs)
        self._check_computed(computed, placeholders, points_of_runs)
        mistakes.stop()
        campaign = Campaign(
            path=self.path,
            config=config,
            environment=environment,
            points=self._sorted(kept, formulas),
            evaluation_points=self._sorted(evaluation, formulas),
            points_dropped=dropped,
            points_held_out=held_out,
            notes=(
                *mistakes.document.notes,
                *self._notes(kept, evaluation, constraints, environment),
                *self._line_grids(points_of_runs, formulas, computed),
            ),
            formulas=formulas,
            build=build,
            run=run,
            filled=filled,
            computed=computed,
        )
        mistakes.add(*checks.full_step_mistakes(campaign), *checks.partition_mistakes(campaign))
        self._check_budget(campaign)
        for feature in FEATURES:
            mistakes.add(*(() if feature.misfits is None else feature.misfits(campaign)))
        mistakes.stop()
        return campaign

    # -- commands and expressions -------------------------------------------------------------------

    def _commands(self, environments: Sequence[str]) -> tuple[Template, tuple[Template, ...]]:
        program = self.config.program
        build = self._parsed(
            ("program", "build"),
            lambda: (
                parse_template(
                    program.build, (*checks.COMPILERS, "flags", *self.names, *self.config.values), expressions=True
                ),
            ),
        )
        allowed = ("binary", "build", *self._of_runs)
        run = self._parsed(("program", "run"), lambda: parse_words(program.run, allowed, expressions=True))
        if build and run:
            run_names = {name for word in run for name in word.names}
            self.mistakes.add(*checks.command_mistakes(self.config, run_names, build[0].names, environments))
        return build[0] if build else Template("", ("",), ()), run

    def _filled(self) -> dict[str, tuple[Template, ...]]:
        """Return the lines of each input that values are put into."""
        filled: dict[str, tuple[Template, ...]] = {}
        for written in self.config.program.inputs:
            entry = Input.of(written, self.path.parent)
            if not entry.fill or not entry.path.is_file():
                continue
            text, lines = entry.path.read_bytes().decode(errors="surrogateescape"), []
            for number, line in enumerate(text.splitlines(keepends=True), start=1):
                try:
                    lines.append(parse_template(line, self._of_runs, expressions=True))
                except TemplateError as error:
                    self.mistakes.add(Mistake((), error.what, hint=error.hint, file=entry.path, line=number))
            filled[entry.name] = tuple(lines)
        return filled

    @property
    def _of_runs(self) -> tuple[str, ...]:
        """Placeholders that stand for numbers of a run."""
        return tuple(dict.fromkeys(("ranks", "threads", *self.names, *self.config.values)))

    def _parsed(self, path: KeyPath, parse: Callable[[], tuple[Template, ...]]) -> tuple[Template, ...]:
        try:
            return parse()
        except TemplateError as error:
            self.mistakes.add(Mistake(path, error.what, hint=error.hint))
            return ()

    def _compiled(
        self, path: KeyPath, text: str | float, kind: Kind, named: Mapping[str, Expression] | None = None
    ) -> Expression | None:
        try:
            return compile_expression(text, self.names, kind, self.values if named is None else named)
        except ExpressionError as error:
            self.mistakes.add(Mistake(path, error.what, hint=error.hint))
            return None

    def _compile_values(self) -> None:
        """Compile the named values; each may use those above it."""
        for name, text in self.config.values.items():
            value = (
                self._listed(name, text)
                if isinstance(text, Mapping)
                else self._compiled(("values", name), text, "number")
            )
            self.values[name] = value or compile_expression(1, (), "number")  # so that one mistake is one mistake

    def _listed(self, name: str, lists: Mapping[str, Sequence[Value]]) -> Expression | None:
        """Return a named value that goes with those of a parameter."""
        ((parameter, entries),) = lists.items()
        path, keys = ("values", name, parameter), self.config.parameters.get(parameter)
        if keys is None:
            self.mistakes.add(no_parameter(path, parameter, self.names))
            return None
        try:
            values = parameter_values(keys)
        except ValueError:  # said of the parameter
            return None
        if keys.role == "steps" or not values:
            why = "Buran chooses them" if keys.role == "steps" else "the points are listed one by one"
            what = f"{name!r} cannot have a list for {parameter!r}, which has no values of its own"
            self.mistakes.add(Mistake(path, what, why, "write an expression"))
        elif len(entries) != len(values):
            what = f"{name!r} has {counted(len(entries), 'value')}, {parameter!r} has {len(values)}"
            why = f"each goes with one of {parameter!r}: {listed(values)}"
            self.mistakes.add(Mistake(path, what, why, "list one for each"))
        else:
            return listed_for(name, parameter, dict(zip(values, entries, strict=True)))
        return None

    def _computed(self, placeholders: Mapping[str, Sequence[str]], formulas: Formulas | None) -> dict[str, Expression]:
        """Return what is computed for commands and inputs: values by name, expressions with their ``=``."""
        computed: dict[str, Expression] = {}
        counts = {} if formulas is None else {"ranks": formulas.ranks, "threads": formulas.threads}
        counts = {name: formula for name, formula in counts.items() if name not in self.names}
        for key, names in placeholders.items():
            named = self.values if key == "build" else {**self.values, **counts}
            for name in names:
                if name in self.values:
                    computed[name] = self.values[name]
                elif name.startswith("="):
                    expression = self._compiled(("program", key), name[1:], "number", named)
                    if expression is not None:
                        computed[name] = expression
        return computed

    def _constraints(self) -> list[Constraint]:
        out: list[Constraint] = []
        for i, text in enumerate(self.config.constraints):
            expression = self._compiled(("constraints", i), text, "condition")
            if expression is not None and not expression.names:
                what = f"the constraint {expression.text!r} uses no parameter"
                self.mistakes.add(Mistake(("constraints", i), what, f"the parameters are: {', '.join(self.names)}"))
            elif expression is not None:
                out.append(Constraint(expression, ("constraints", i)))
        return out

    def _formulas(self) -> Formulas | None:
        resources = self.config.resources
        roles = {parameter.role: name for name, parameter in self.config.parameters.items()}
        ranks = resources.ranks if resources.ranks is not None else roles.get("ranks")
        threads = resources.threads if resources.threads is not None else roles.get("threads", 1)
        if ranks is None:
            what = "it is not said how many MPI ranks a run has"
            hint = "give a parameter the role ranks, or write resources.ranks: 1 for a serial program"
            self.mistakes.add(Mistake(("parameters",), what, hint=hint))
            ranks = 1
        compiled = {
            key: self._compiled(("resources", key), text, "number")
            for key, text in (
                ("ranks", ranks),
                ("threads", threads),
                ("nodes", None if resources.nodes == AUTO else resources.nodes),
                ("time_limit", resources.time_limit),
                ("expected_time", resources.expected_time),
                ("tasks_per_node", resources.tasks_per_node),
                ("memory_mb", resources.memory_mb),
            )
            if text is not None
        }
        formulas = {key: formula for key, formula in compiled.items() if formula is not None}
        return Formulas(**formulas) if len(formulas) == len(compiled) else None

    # -- points -------------------------------------------------------------------------------------

    def _listed_points(self) -> list[WrittenPoint] | None:
        """Return the points that are listed one by one, or nothing if they are combinations of values."""
        config = self.config
        if config.points is not None:
            points = self._from_file("points", config.points)
        elif config.points_file is not None:
            file = below(self.path.parent, config.points_file)
            try:
                points, mistakes = read_points(file, ("points_file",), self.names)
            except CampaignError as error:
                points, mistakes = [], [*error.mistakes]
            if not file.is_file():
                what, why = f"there is no CSV file {config.points_file!r}", f"{file} is {missing(file)}"
                mistakes = [Mistake(("points_file",), what, why, "paths are relative to the campaign file")]
            self.mistakes.add(*mistakes)
        else:
            return None
        self._check_listed(points)
        for name in self.names:
            values = {point.values[name] for point in points if name in point.values}
            if len(values) == 1:
                key = "points" if config.points is not None else "points_file"
                self.mistakes.add(checks.single_value((key,), name, next(iter(values))))
        return points

    def _evaluation_points(self) -> list[Mapping[str, Value]]:
        steps, written = self.config.steps, self.config.evaluation_points
        points = self._from_file("evaluation_points", [{**steps, **at} for at in written])
        self._check_listed(points)
        return [point.values for point in points]

    def _from_file(self, key: str, points: Sequence[Mapping[str, Value]]) -> list[WrittenPoint]:
        return [
            WrittenPoint(values, (key, i), self.mistakes.document.path, self.mistakes.document.line((key, i)))
            for i, values in enumerate(points)
        ]

    def _check_listed(self, points: Sequence[WrittenPoint]) -> None:
        self.mistakes.add(*point_mistakes(points, self.names))
        for name, parameter in self.config.parameters.items():
            words = [point for point in points if isinstance(point.values.get(name), Category)]
            for point in words if parameter.role != "choice" else ():
                why = f"{name!r} has the role {parameter.role}; words are for role: choice"
                self.mistakes.add(point.mistake(f"{str(point.values[name])!r} is not a number", why))
            if words and parameter.role == "choice" and len(words) < sum(name in point.values for point in points):
                other = next(point for point in points if point not in words and name in point.values)
                what = f"{name!r} has words and numbers"
                self.mistakes.add(other.mistake(what, f"{other.values[name]} is a number", "write a word for it"))
            if words or parameter.role not in ("ranks", "threads"):
                continue
            for point in points:
                value = point.values.get(name)
                if isinstance(value, float):
                    why = f"{parameter.role} must be whole numbers"
                    self.mistakes.add(point.mistake(f"{name} = {value} is not allowed", why))

    def _modelling_points(
        self,
        points: list[WrittenPoint] | None,
        constraints: Sequence[Constraint],
        evaluation: Sequence[Mapping[str, Value]],
    ) -> tuple[list[Mapping[str, Value]], int, int]:
        held_out = {Point.of(values) for values in evaluation}
        if points is None:
            values = {name: parameter_values(parameter) for name, parameter in self.config.parameters.items()}
            count = math.prod(len(choices) for choices in values.values())
            if count > MOST_POINTS:
                what = f"the parameters have {count} combinations of values; at most {MOST_POINTS} are allowed"
                self.mistakes.add(Mistake(("parameters",), what, hint="take fewer values, or list the points"))
                self.mistakes.stop()
            further = (
                point
                for point in self._target_with_few_steps(values)
                if any(value not in values[name] for name, value in point.items())
            )
            kept, dropped, mistakes = satisfying(chain(product(values), further), constraints)
        else:
            kept, dropped, mistakes = satisfying([point.values for point in points], constraints)
            for point in points:
                if Point.of(point.values) in held_out:
                    what = f"the point {Point.of(point.values)} is an evaluation point too"
                    self.mistakes.add(point.mistake(what, "such points are never used for modelling"))
        self.mistakes.add(*mistakes)
        remaining = [values for values in kept if Point.of(values) not in held_out] if held_out else kept
        for name in self.names if not mistakes else ():
            left = {values[name] for values in remaining}
            if len(left) < 2:
                self._only_one_left(name, left)
        return remaining, dropped, len(kept) - len(remaining)

    def _target_with_few_steps(self, values: Mapping[str, Sequence[Value]]) -> list[dict[str, Value]]:
        """Return the target with few steps: what a step takes there, no smaller point tells as well.

        None where the target has more ranks or threads than the campaign, or where expressions say how many.
        """
        config, target = self.config, self.config.target or {}
        steps = config.steps
        others = [name for name in self.names if name not in steps]
        at = {name: value for name, value in target.items() if name in others and not isinstance(value, str)}
        choices = (name for name in others if config.parameters[name].role == "choice")
        at |= {name: word for name in choices if (word := word_of(target.get(name, "")))}
        computed = any(isinstance(each, str) for each in (config.resources.ranks, config.resources.threads))
        if not steps or computed or len(at) < len(others):
            return []
        if any(at[name] > max(values[name]) for name in others if config.parameters[name].role in ("ranks", "threads")):
            return []
        few = {name: step_values(full)[:-1] for name, full in steps.items()}
        return list(product({name: few.get(name) or (at[name],) for name in self.names}))

    def _only_one_left(self, name: str, left: set[Value]) -> None:
        blame: KeyPath = ("constraints",) if self.config.constraints else ("evaluation_points",)
        remains = f"only {name} = {next(iter(left))} remains" if left else "no point remains"
        what = f"{remains} after constraints and evaluation points are taken out"
        why = f"from less than two values nothing can be learnt about the influence of {name!r}"
        self.mistakes.add(Mistake(blame, what, why, "relax a constraint, or add values"))

    def _sorted(self, points: Sequence[Mapping[str, Value]], formulas: Formulas) -> tuple[Point, ...]:
        def cost(values: Mapping[str, Value]) -> tuple[Value, ...]:
            cores = formulas.ranks(values) * formulas.threads(values)
            return (cores, *(values[name] for name in self.names))

        return tuple(Point.of(values) for values in sorted(points, key=cost))

    # -- resources, budget, notes -------------------------------------------------------------------

    def _check_resources(self, formulas: Formulas, points: Sequence[Mapping[str, Value]]) -> None:
        for key, formula in vars(formulas).items():
            if formula is None:
                continue
            used = formula.names | formulas.ranks.names | (formulas.nodes.names if formulas.nodes else frozenset())
            for values in {tuple(values[name] for name in used): values for values in points}.values():
                try:
                    check_resource(formulas, key, values)
                except ConfigError as error:
                    self.mistakes.add(Mistake(("resources", key), error.what, error.why, error.hint))
                    break

    def _check_computed(
        self,
        computed: Mapping[str, Expression],
        placeholders: Mapping[str, Sequence[str]],
        points: Sequence[Mapping[str, Value]],
    ) -> None:
        """Check that what is put into commands can be computed at every point, and is a whole number there."""
        for name, expression in computed.items():
            used_in = next(command for command, names in placeholders.items() if name in names)
            key = ("values", name) if name in self.values else ("program", used_in)
            as_written = isinstance(self.config.values.get(name), Mapping)
            for values in points if expression.names else points[:1]:
                try:
                    number = expression(values)
                except ExpressionError as error:
                    self.mistakes.add(Mistake(key, error.what, hint=error.hint))
                    break
                broken = isinstance(number, float) and not as_written
                if broken and not any(isinstance(values[used], float) for used in expression.names):
                    at = Point.of({used: values[used] for used in expression.names})
                    what = f"{expression.text!r} gives {number} at {at}"
                    why = "a command is given whole numbers only, so that none is cut off unseen"
                    self.mistakes.add(Mistake(key, what, why, "round with ceil(...) or floor(...), or divide with //"))
                    break

    def _check_budget(self, campaign: Campaign) -> None:
        if campaign.config.budget.in_force(math.inf) is None:
            return
        first = along_axes(campaign.points, campaign.parameters, 2)
        first_core_hours = campaign.minimum_core_hours(first, campaign.repetitions)
        full_core_hours = campaign.minimum_core_hours(campaign.full_matrix, campaign.repetitions)
        budget = campaign.config.budget.in_force(full_core_hours)
        if first_core_hours is None or budget is None or first_core_hours <= budget:
            return
        what = f"the budget of {budget:.4g} core hours is below the first plan, {first_core_hours:.4g}"
        why = "less than the first plan gives no models"
        hint = "raise the budget, or take fewer or cheaper points and repetitions"
        self.mistakes.add(Mistake(("budget",), what, why, hint))

    def _notes(
        self,
        points: Sequence[Mapping[str, Value]],
        evaluation: Sequence[Mapping[str, Value]],
        constraints: Sequence[Constraint],
        environment: str,
    ) -> list[str]:
        notes: list[str] = []
        for name in self.names:
            count = len({values[name] for values in points})
            if count < FEW_VALUES and self.config.parameters[name].role not in ("steps", "choice"):
                notes.append(f"{name} has {count} values; models are trustworthy from {FEW_VALUES} on")
        broken: Counter[str] = Counter()
        for values in evaluation:
            broken.update(c.expression.text for c in constraints if not holds(c.expression, values))
        machine = simulated(self.config.environments[environment])
        if machine is not None and max(self.config.repetitions, self.config.effort_repetitions) > 1:
            notes.append("simulated runs are all the same: repetitions: 1 and effort_repetitions: 1 say as much")
        for text, count in broken.items():
            notes.append(f"evaluation points that do not fulfil `{text}` are measured all the same: {count}")
        return notes

    def _line_grids(
        self, points: Sequence[Mapping[str, Value]], formulas: Formulas, computed: Mapping[str, Expression]
    ) -> list[str]:
        """Name the prime numbers of ranks: their grids are lines, which communicate otherwise than boxes."""
        expressions = {**self.values, **computed}
        grids = [name.lstrip("=") for name, expression in expressions.items() if has_grid(expression.text)]
        ranks = sorted({int(formulas.ranks(values)) for values in points}) if grids else []
        primes = [number for number in ranks if is_line(number)]
        numbers = f"{', '.join(map(str, primes))} {'is a prime number' if len(primes) == 1 else 'are prime numbers'}"
        return [f"{numbers} of ranks: the grid is a line there ({', '.join(grids)})"] if primes else []
