"""Reading a campaign file: every mistake in it is found before anything is built or run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from buran.campaign import checks
from buran.campaign.config import Campaign
from buran.campaign.document import YamlDocument, read_campaign_file
from buran.campaign.expressions import Expression, ExpressionError, Kind, compile_expression
from buran.campaign.launcher import environment_mistakes, environments_of
from buran.campaign.mistakes import CampaignError, KeyPath, Mistake, TextError
from buran.campaign.point import Point, Value, step_values
from buran.campaign.resources import AUTO, Formulas, Input, check_resource
from buran.campaign.shape import CampaignFile
from buran.campaign.space import (
    MOST_POINTS,
    holds,
    parameter_values,
    product,
    satisfying,
)
from buran.campaign.template import Template, parse_template, parse_words
from buran.campaign.validation import validate
from buran.errors import ConfigError
from buran.features import FEATURES, simulated
from buran.wording import word_of

FEW_VALUES = 5  # fewer cannot distinguish growth classes


def load_campaign(path: Path) -> Campaign:
    """Read and check a campaign file.

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
        return _Loading(config, collected, path.absolute()).campaign()
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

    @contextmanager
    def of_text(self, path: KeyPath, file: Path | None = None, line: int = 0) -> Iterator[None]:
        """Add what is wrong with a text that is read meanwhile."""
        try:
            yield
        except TextError as error:
            self.add(Mistake(path, error.what, None, error.hint, file, line))

    def stop(self) -> None:
        """Raise what was collected, in the order of the file."""
        if self.all:
            raise CampaignError(
                sorted(self.all, key=lambda mistake: (mistake.file != self.document.path, mistake.line))
            )


class _Loading:
    """One reading of one file: steps add mistakes, and stop only where the next needs their result."""

    def __init__(self, config: CampaignFile, mistakes: _Mistakes, path: Path) -> None:
        self.config = config
        self.mistakes = mistakes
        self.path = path
        self.names = tuple(config.parameters)
        self.values: dict[str, Expression] = {}

    def campaign(self) -> Campaign:
        config, mistakes = self.config, self.mistakes
        mistakes.add(*checks.of_file(config, self.path.parent))
        environments = environments_of(config)
        environment = environments[0]
        mistakes.add(*environment_mistakes(config, environments))
        for feature in FEATURES:
            mistakes.add(*(() if feature.mistakes is None else feature.mistakes(config, environment)))
        for name, text in config.values.items():  # each may use those above it; one mistake is one mistake
            value = self._compiled(("values", name), text, "number")
            self.values[name] = value or compile_expression(1, (), "number")
        build, run = self._commands(environments)
        filled = self._filled()
        constraints = self._constraints()
        formulas = self._formulas()
        of_run = tuple(name for word in run for name in word.names)
        of_inputs = tuple(name for line in chain(*filled.values()) for name in line.names if name not in of_run)
        placeholders = {"build": build.names, "run": of_run, "inputs": of_inputs}
        computed = self._computed(placeholders, formulas)
        mistakes.stop()
        assert formulas is not None
        used = {*build.names, *of_run, *of_inputs, config.environment or ""}
        used.update(name for expression in computed.values() for name in expression.names)
        influence = {"ranks": formulas.ranks.names, "threads": formulas.threads.names}
        reached = (checks.reach_mistakes(config, name, used, influence) for name in environments)
        mistakes.add(*dict.fromkeys(chain.from_iterable(reached)))
        evaluation = [{**config.steps, **at} for at in config.evaluation_points]
        kept, dropped, held_out = self._modelling_points(constraints, evaluation)
        points_of_runs = [*kept, *evaluation]
        mistakes.add(*checks.word_mistakes(config, kept))
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
            notes=self._notes(kept, evaluation, constraints, environment),
            formulas=formulas,
            build=build,
            run=run,
            filled=filled,
            computed=computed,
        )
        mistakes.add(*checks.of_campaign(campaign))
        for feature in FEATURES:
            mistakes.add(*(() if feature.misfits is None else feature.misfits(campaign)))
        mistakes.stop()
        return campaign

    # -- commands and expressions -------------------------------------------------------------------

    def _commands(self, environments: Sequence[str]) -> tuple[Template, tuple[Template, ...]]:
        program, build = self.config.program, Template("", ("",), ())
        run: tuple[Template, ...] = ()
        of_build = (*checks.COMPILERS, "flags", *self.names, *self.config.values)
        with self.mistakes.of_text(("program", "build")):
            build = parse_template(program.build, of_build, expressions=True)
        with self.mistakes.of_text(("program", "run")):
            run = parse_words(program.run, ("binary", "build", *self._of_runs), expressions=True)
        if build.text and run:
            run_names = {name for word in run for name in word.names}
            self.mistakes.add(*checks.command_mistakes(self.config, run_names, build.names, environments))
        return build, run

    def _filled(self) -> dict[str, tuple[Template, ...]]:
        """Return the lines of each input that values are put into."""
        filled: dict[str, list[Template]] = {}
        for written in self.config.program.inputs:
            entry = Input.of(written, self.path.parent)
            if not entry.fill or not entry.path.is_file():
                continue
            lines = filled.setdefault(entry.name, [])
            text = entry.path.read_bytes().decode(errors="surrogateescape")
            for number, line in enumerate(text.splitlines(keepends=True), start=1):
                with self.mistakes.of_text((), entry.path, number):
                    lines.append(parse_template(line, self._of_runs, expressions=True))
        return {name: tuple(lines) for name, lines in filled.items()}

    @property
    def _of_runs(self) -> tuple[str, ...]:
        """Placeholders that stand for numbers of a run."""
        return tuple(dict.fromkeys(("ranks", "threads", *self.names, *self.config.values)))

    def _compiled(
        self, path: KeyPath, text: str | float, kind: Kind, named: Mapping[str, Expression] | None = None
    ) -> Expression | None:
        with self.mistakes.of_text(path):
            return compile_expression(text, self.names, kind, self.values if named is None else named)
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

    def _constraints(self) -> dict[KeyPath, Expression]:
        found = {}
        for i, text in enumerate(self.config.constraints):
            path: KeyPath = ("constraints", i)
            expression = self._compiled(path, text, "condition")
            if expression is not None and not expression.names:
                what = f"the constraint {expression.text!r} uses no parameter"
                self.mistakes.add(Mistake(path, what, f"the parameters are: {', '.join(self.names)}"))
            elif expression is not None:
                found[path] = expression
        return found

    def _formulas(self) -> Formulas | None:
        resources = self.config.resources
        roles = {parameter.role: name for name, parameter in self.config.parameters.items()}
        ranks = resources.ranks if resources.ranks is not None else roles.get("ranks")
        threads = resources.threads if resources.threads is not None else roles.get("threads", 1)
        if ranks is None:
            what = "it is not said how many MPI ranks a run has"
            hint = "give a parameter the role ranks, or write resources.ranks: 1 for a serial program"
            self.mistakes.add(Mistake(("parameters",), what, hint=hint))
            return None
        texts = {
            **{key: getattr(resources, key) for key in ("time_limit", "expected_time", "tasks_per_node", "memory_mb")},
            "ranks": ranks,
            "threads": threads,
            "nodes": None if resources.nodes == AUTO else resources.nodes,
        }
        compiled = {
            key: self._compiled(("resources", key), text, "number") for key, text in texts.items() if text is not None
        }
        formulas = {key: formula for key, formula in compiled.items() if formula is not None}
        return Formulas(**formulas) if len(formulas) == len(compiled) else None

    # -- points -------------------------------------------------------------------------------------

    def _modelling_points(
        self, constraints: Mapping[KeyPath, Expression], evaluation: Sequence[Mapping[str, Value]]
    ) -> tuple[list[Mapping[str, Value]], int, int]:
        held_out = {Point.of(values) for values in evaluation}
        if self.config.points is None:
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
            kept, dropped, mistakes = satisfying(self.config.points, constraints)
            for i, point in enumerate(self.config.points):
                if Point.of(point) in held_out:
                    what = f"the point {Point.of(point)} is an evaluation point too"
                    self.mistakes.add(Mistake(("points", i), what, "such points are never used for modelling"))
        self.mistakes.add(*mistakes)
        remaining = [values for values in kept if Point.of(values) not in held_out] if held_out else kept
        for name in self.names if not mistakes else ():
            left = {values[name] for values in remaining}
            if len(left) < 2:
                blame: KeyPath = ("constraints",) if constraints else ("evaluation_points",)
                remains = f"only {name} = {next(iter(left))} remains" if left else "no point remains"
                what = f"{remains} after constraints and evaluation points are taken out"
                why = f"from less than two values nothing can be learnt about the influence of {name!r}"
                self.mistakes.add(Mistake(blame, what, why, "relax a constraint, or add values"))
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

    def _sorted(self, points: Sequence[Mapping[str, Value]], formulas: Formulas) -> tuple[Point, ...]:
        def cost(values: Mapping[str, Value]) -> tuple[Value, ...]:
            cores = formulas.ranks(values) * formulas.threads(values)
            return (cores, *(values[name] for name in self.names))

        return tuple(Point.of(values) for values in sorted(points, key=cost))

    # -- resources, notes -------------------------------------------------------------------

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
            with self.mistakes.of_text(key):
                for values in points if expression.names else points[:1]:
                    number = expression(values)
                    broken = any(isinstance(values[used], float) for used in expression.names)
                    if isinstance(number, float) and not broken:
                        at = Point.of({used: values[used] for used in expression.names})
                        what = f"{expression.text!r} gives {number} at {at}, which is no whole number"
                        raise ExpressionError(what, "round with ceil(...) or floor(...), or divide with //")

    def _notes(
        self,
        points: Sequence[Mapping[str, Value]],
        evaluation: Sequence[Mapping[str, Value]],
        constraints: Mapping[KeyPath, Expression],
        environment: str,
    ) -> tuple[str, ...]:
        notes: list[str] = []
        for name in self.names:
            count = len({values[name] for values in points})
            if count < FEW_VALUES and self.config.parameters[name].role not in ("steps", "choice"):
                notes.append(f"{name} has {count} values; models are trustworthy from {FEW_VALUES} on")
        broken: Counter[str] = Counter()
        for values in evaluation:
            broken.update(each.text for each in constraints.values() if not holds(each, values))
        machine = simulated(self.config.environments[environment])
        if machine is not None and max(self.config.repetitions, self.config.effort_repetitions) > 1:
            notes.append("simulated runs are all the same: repetitions: 1 and effort_repetitions: 1 say as much")
        for text, count in broken.items():
            notes.append(f"evaluation points that do not fulfil `{text}` are measured all the same: {count}")
        return tuple(notes)
