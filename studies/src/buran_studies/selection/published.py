"""The evaluation of the paper on cost-effective modelling as its authors ran it, and its steps switched one by one.

Facts of the protocol are those of the authors' public evaluation code (github.com/extra-p/extrap-gpr): functions
``c0 + sum`` or ``c0 + product`` of one term a parameter; five values of each; noise of a fixed seed that all functions
share and that accumulates over repetitions; lines alone as the base, two runs a point for GPR and four for CPF; a base
that exceeds the budget counts as a miss; costs are those of the very runs; the full matrix is measured four times.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from buran.campaign.strategies import Abilities
from buran.errors import FormatError
from buran.planning.base import Base, base_indices
from buran.planning.gpr import repetition_weight
from buran.planning.observations import Observations
from buran.planning.protocol import Advice, Chooses, PlanningState
from buran.planning.protocol import Settings as Wishes
from buran.planning.space import Array, Space
from buran.planning.strategies import strategy_of
from buran_studies.evaluation.evaluation import Beside, Evaluation, Table
from buran_studies.evaluation.study import Settings, Shard
from buran_studies.extrap import Task, answers_of_extrap, extrap_python, name_of_modeller
from buran_studies.functions import AXES, beyond, grid
from buran_studies.selection.play import modelled, play, space_of

Noise = Literal["shared", "own", "independent"]
PARAMETERS, REPETITIONS, SEED = 2, 4, 10
"""Of the authors' program: repetitions of the full matrix, and the seed of the noise that all functions share."""
MISS = 1e9  # JSON has no infinity
LIMIT = 5.0
FUNCTIONS = "functions"
"""File of the authors' functions, in any folder below the data's."""
POWERS = (
    0, 1 / 4, 1 / 3, 1 / 2, 1, 2 / 3, 3 / 4, 4 / 5, 5 / 4, 4 / 3, 3 / 2, 5 / 3, 7 / 4, 9 / 4, 7 / 3, 5 / 2, 8 / 3,
    11 / 4, 2, 3,
)  # fmt: skip
_LOGS = (0, 1, 2)
_LEAST = 0.01  # share of each term of a sum at both corners; relative slope of a product there
_DRAWS, _QUICK_DRAWS = 1000, 120
_LEAST_SWITCHED, _SWITCHED = 20, 10  # functions for each switched step of the quick form, at least, or a tenth
_TOGETHER = 10  # functions a shard

PRINTED: Mapping[tuple[float, float], Mapping[str, float]] = {
    (1.0, 10.0): {"gpr": 78.4, "cpf": 49.1, "full": 85.7},
    (5.0, 10.0): {"gpr": 77.8, "cpf": 47.3, "full": 66.0},
    (5.0, 20.0): {"gpr": 81.6, "cpf": 79.2, "full": 66.0},
    (10.0, 10.0): {"gpr": 67.4, "cpf": 39.8, "full": 22.4},
    (10.0, 50.0): {"gpr": 80.6, "cpf": 78.0, "full": 22.4},
}
"""Share within 5 % by noise and budget, both in percent: abstract and Fig. 5, digits of the authors' result files."""
HEADLINE = (5.0, 10.0)


@dataclass(frozen=True)
class Function:
    """A truth of the paper: a constant and one term a parameter, added or multiplied.

    Attributes
    ----------
    coefficients, exponents
        Of each parameter's term; exponents are (power, power of the logarithm).
    """

    constant: float
    coefficients: tuple[float, ...]
    exponents: tuple[tuple[float, int], ...]
    product: bool

    def terms(self, points: Array) -> Array:
        """Return the terms at points (point, parameter), shape (parameter, point)."""
        pairs = zip(self.coefficients, self.exponents, points.T, strict=True)
        # c_k x^i log2(x)^j
        return np.stack([c * x**power * np.log2(x) ** logs for c, (power, logs), x in pairs])

    def evaluate(self, points: Array) -> Array:
        """Evaluate at points (point, parameter)."""
        terms = self.terms(points)
        return np.asarray(self.constant + (terms.prod(axis=0) if self.product else terms.sum(axis=0)))


@dataclass(frozen=True)
class Step:
    """The protocol with one step of it switched.

    Attributes
    ----------
    noise
        ``shared`` by all functions and accumulating, as in the authors' program; ``own``: drawn for each function,
        accumulating; ``independent``: drawn for each run, uniform within plus and minus the level.
    cpf_base
        Runs of each base point, and of each further one, of CPF.
    known
        Whether costs are those of the very runs; else models predict them.
    every
        Runs between two models.
    process
        Whether GPR has its process. Without, cost and weight alone rate a run, which is what the authors' program comes
        to: after each choice it fits its process to the newest run alone, and then all points are alike.
    strategies
        Those that the step concerns.
    """

    name: str
    noise: Noise = "shared"
    cpf_base: int = REPETITIONS
    known: bool = True
    every: int = 1
    process: bool = True
    strategies: tuple[str, ...] = ("gpr", "cpf", "full")


AUTHORS = Step("as the authors' program")


@dataclass(frozen=True)
class CostAlone:
    """GPR with the same variance everywhere: the least C^2 w_c next."""

    base: Base

    @property
    def abilities(self) -> Abilities:
        """What it can do."""
        return Abilities(base_repetitions=self.base.repetitions)

    def configured(self, settings: Wishes) -> CostAlone:
        """Return it with another base."""
        return replace(self, base=settings.base or self.base)

    def suggest(self, state: PlanningState) -> Advice:
        """Return the next run."""
        opening = self.base.advice(state)
        if opening is not None:
            return opening
        possible = state.free & (state.cost <= state.left)
        if not possible.any():
            return state.nothing_left()
        rating = state.cost**2 * repetition_weight(np.nan_to_num(state.measured.noise_percent), state.runs)
        place = int(np.argmin(np.where(possible, rating, np.inf)))
        return Advice(state.suggestions([place], [-float(rating[place])], ["cheap"]))


STEPS = (
    AUTHORS,
    Step("noise of its own for each function", noise="own"),
    Step("noise of its own for each run", noise="independent"),
    Step("cost and weight rate a run, no process", process=False, strategies=("gpr",)),
    Step("CPF measures each point twice", cpf_base=2, strategies=("cpf",)),
    Step("costs predicted, models after each run", known=False, strategies=("gpr",)),
    Step("costs predicted, models after 8 runs", known=False, every=8, strategies=("gpr",)),
)


def shards(settings: Settings) -> Sequence[Shard]:
    """Cut by cell, step and functions."""
    draws = settings.draws or (_QUICK_DRAWS if settings.quick else _DRAWS)
    switched = min(draws, max(_LEAST_SWITCHED, draws // _SWITCHED)) if settings.quick else draws
    cells = [HEADLINE] if settings.quick else list(PRINTED)
    out: list[Shard] = []
    for number, step in enumerate(STEPS):
        for noise, budget in cells if step is AUTHORS else [HEADLINE]:
            count = draws if step is AUTHORS else switched
            for first in range(0, count, _TOGETHER):
                functions = min(_TOGETHER, count - first)
                own = {"step": number, "noise": noise, "budget": budget, "first": first, "functions": functions}
                out.append({**own, "extrap": extrap_python() is not None})
    return out


def run_shard(shard: Shard, settings: Settings) -> Any:
    """Play the campaigns of some functions; Buran's models and Extra-P's of the same runs."""
    step, numbers = STEPS[shard["step"]], range(shard["first"], shard["first"] + shard["functions"])
    theirs = authors_functions(settings)
    order = None if theirs is None else np.random.default_rng(settings.seed).permutation(len(theirs))
    entries: list[dict[str, Any]] = []
    tasks: list[Task] = []
    for number in numbers:
        if theirs is None or order is None:
            function = drawn(settings.seed, number)
        else:
            function = theirs[order[number % len(order)]]
        space = space_of(grid(PARAMETERS), beyond(PARAMETERS))
        runs = noisy(function.evaluate(space.points), step.noise, shard["noise"], [settings.seed, number])
        true = float(function.evaluate(space.target[None])[0])
        for strategy in step.strategies:
            chosen = campaign(strategy, step, space, runs, shard["budget"] / 100, number)
            entry: dict[str, Any] = {"strategy": strategy, "affordable": chosen is not None, "true": true}
            if chosen is not None:
                points, values = chosen
                entry |= {"runs": int(np.isfinite(values).sum()), "points": len(points), "task": len(tasks)}
                models = modelled(Observations(points, values[None]))
                entry["buran"] = float(models.predict(space.target[None])[0, 0])
                tasks.append(Task(points, values[None], space.target))
            entries.append(entry)
    python = extrap_python()
    if shard["extrap"] and python is not None and tasks:
        answers = answers_of_extrap(python, tasks)
        for entry in entries:
            if "task" in entry:
                entry["extrap"] = float(answers[entry["task"]].predicted[0])
    return {**shard, "entries": entries}


def authors_functions(settings: Settings) -> tuple[Function, ...] | None:
    """Return the functions of the authors' evaluation, where the data's folder has their file; None without data.

    The file is a pickle and is read as text, never loaded.

    Raises
    ------
    FormatError
        The folder has no such file, or it has no functions of two parameters.
    """
    if settings.data is None:
        return None
    folder = settings.data_folder()
    paths = sorted(path for path in folder.rglob(FUNCTIONS) if path.is_file() and "3_par" not in str(path))
    found = tuple(f for path in paths[:1] for f in read_functions(path))
    if not found:
        raise FormatError("there are no functions of two parameters", where=folder, why=f"no file {FUNCTIONS} has any")
    return found


_NUMBER = rb"(\d+(?:\.\d+)?(?:e-?\d+)?)"
_TERM = _NUMBER + rb"\*%b\*\*" + _NUMBER + rb"\*math\.log2\(%b\)\*\*(\d)"
_FUNCTION = re.compile(_NUMBER + rb"\+" + _TERM % (b"a", b"a") + rb"([+*])" + _TERM % (b"b", b"b"))


def read_functions(path: Path) -> tuple[Function, ...]:
    """Read the texts of functions from the authors' file."""
    out = []
    for constant, c1, i1, j1, sign, c2, i2, j2 in _FUNCTION.findall(path.read_bytes()):
        exponents = ((float(i1), int(j1)), (float(i2), int(j2)))
        out.append(Function(float(constant), (float(c1), float(c2)), exponents, sign == b"*"))
    return tuple(out)


def drawn(seed: int, number: int) -> Function:
    """Draw a function as the authors' generator does.

    Sums are drawn again until each term makes up 1 % at both corners, products until the relative slope along each
    parameter is 1 % a unit there.
    """
    rng = np.random.default_rng([seed, number])
    corners = np.array([[axis[0] for axis in AXES[:PARAMETERS]], [axis[-1] for axis in AXES[:PARAMETERS]]], dtype=float)
    product = bool(rng.integers(2))
    while True:
        constant, *own = np.round(rng.uniform(0, 1000, PARAMETERS + 1), 3).tolist()
        exponents = tuple((float(rng.choice(POWERS)), int(rng.choice(_LOGS))) for _ in range(PARAMETERS))
        found = Function(constant, tuple(own), exponents, product)
        if (_shares(found, corners) >= _LEAST).all():
            return found


def _shares(function: Function, corners: Array) -> Array:
    """Return shape (parameter, corner): what each parameter makes of the value."""
    terms, value = function.terms(corners), function.evaluate(corners)
    if not function.product:
        return np.asarray(terms / value)
    # (df/dx) / f of c0 + prod: the product's share times i/x + j/(x ln x)
    slopes = [
        power / x + logs / (x * np.log(x)) for (power, logs), x in zip(function.exponents, corners.T, strict=True)
    ]
    return np.asarray(np.stack(slopes) * (terms.prod(axis=0) / value))


def noisy(truth: Array, kind: Noise, percent: float, seed: Sequence[int]) -> Array:
    """Return runs at all points, shape (place, repetition).

    Parameters
    ----------
    truth
        Shape (place,), the last parameter running fastest.
    seed
        Of noise that is not shared.
    """
    if kind == "independent":
        own = np.random.default_rng([*seed, 1])
        factors = 1 + percent / 100 * own.uniform(-1, 1, (len(truth), REPETITIONS))
        return np.asarray(truth[:, None] * factors)
    draws = random.Random(SEED if kind == "shared" else int(np.random.SeedSequence([*seed, 1]).generate_state(1)[0]))
    steps = np.empty((len(truth), REPETITIONS))
    for step in steps.reshape(-1, 1):
        sign = -1 if draws.randint(1, 2) == 1 else 1  # the order in which the authors' program draws
        step[0] = 1 + sign * draws.uniform(0, percent / 2) / 100
    return np.asarray(truth[:, None] * np.cumprod(steps, axis=1))


def campaign(
    strategy: str, step: Step, space: Space, runs: Array, share: float, seed: int
) -> tuple[Array, Array] | None:
    """Return points and values (point, repetition) that a strategy chose; None where the base exceeds the budget."""
    if strategy == "full":
        return space.points, runs
    repetitions = step.cpf_base if strategy == "cpf" else 2
    costs = np.stack([space.core_hours(run) for run in runs.T], axis=1)
    budget = share * float(costs.sum())
    if costs[base_indices(space, off_lines=False), :repetitions].sum() > budget:
        return None
    base = Base(repetitions, off_lines=False)
    chosen: Chooses = CostAlone(base)
    if step.process:
        chosen = strategy_of(strategy, base=base, repetitions=repetitions)
    most = repetitions if strategy == "cpf" else step.every
    own = replace(space, most_repetitions=REPETITIONS)
    _, measured = play(chosen, own, runs[None], runs, budget, seed=seed, most=most, known=step.known)
    return measured.points, measured.values[0]


def summarise(results: Sequence[Any], settings: Settings) -> Evaluation:
    """Put the shares within 5 % beside the paper's, and say which step of the protocol decides."""
    gathered: dict[tuple[int, float, float, str], list[dict[str, Any]]] = {}
    for result in results:
        for entry in result["entries"]:
            key = (result["step"], result["noise"], result["budget"], entry["strategy"])
            gathered.setdefault(key, []).append(entry)
    modellers = ["extrap", "buran"] if all(result["extrap"] for result in results) else ["buran"]
    rows: list[tuple[str | int | float | None, ...]] = []
    for (number, noise, budget, strategy), entries in gathered.items():
        errors = {name: _errors(entries, name) for name in modellers}
        affordable = np.array([entry["affordable"] for entry in entries])
        cells = [cell for name in modellers for cell in _shares_within(errors[name], affordable)]
        made = [entry["points"] for entry in entries if entry["affordable"]]
        mean = float(np.mean(made)) if made else None
        same = gathered[0, noise, budget, strategy][: len(entries)]  # a switched step has the first functions alone
        change = _share(entries, modellers[0])[0] - _share(same, modellers[0])[0] if number else None
        fit = 100 * float(affordable.mean())
        rows.append((STEPS[number].name, noise, budget, strategy, *cells, change, fit, mean, len(entries)))
    names = {"extrap": "Extra-P", "buran": "Buran"}
    header = (
        "protocol", "noise %", "B %", "strategy",
        *(f"{names[m]}, {what}" for m in modellers for what in ("<= 5 %", "of affordable")),
        "change, points", "base affordable %", "points", "functions",
    )  # fmt: skip
    title = "Share of functions predicted within 5 %, the protocol switched step by step"
    note = (
        "Both modellers have the same runs. Of affordable: of functions whose base fits into the budget. Change: of "
        "the first share, against the authors' program on the same functions."
    )
    compared = [
        _beside(gathered, key, modellers[0], settings) for key in gathered if key[0] == 0 and key[1:3] in PRINTED
    ]
    origin = "functions of the authors' file" if settings.data else "functions drawn as the authors' generator does"
    return Evaluation(
        "Point selection by the paper's own protocol",
        tables=(Table(title, header, tuple(rows), note),),
        notes=(f"{origin}; two parameters, {REPETITIONS} repetitions, noise of seed {SEED}",),
        beside=tuple(compared),
        modeller=name_of_modeller(),
    )


def _errors(entries: Sequence[Mapping[str, Any]], modeller: str) -> Array:
    """Return the error of each function in %, a miss where the base did not fit."""
    return np.array(
        [100 * abs(e[modeller] / e["true"] - 1) if e["affordable"] else MISS for e in entries], dtype=np.float64
    )


def _shares_within(errors: Array, affordable: Array) -> tuple[float, float | None]:
    hits = errors <= LIMIT
    return 100 * float(hits.mean()), 100 * float(hits[affordable].mean()) if affordable.any() else None


def _beside(
    gathered: Mapping[tuple[int, float, float, str], Sequence[Mapping[str, Any]]],
    key: tuple[int, float, float, str],
    modeller: str,
    settings: Settings,
) -> Beside:
    """Compare one number; where it deviates, the switch that changes it most is the reason."""
    _, noise, budget, strategy = key
    share, error = _share(gathered[key], modeller)
    why = ""
    if (noise, budget) == HEADLINE:
        moved = [
            (_share(entries, modeller)[0] - _share(gathered[key][: len(entries)], modeller)[0], STEPS[other[0]].name)
            for other, entries in gathered.items()
            if other[0] and other[1:] == key[1:]
        ]
        if modeller == "extrap":
            moved.append((_share(gathered[key], "buran")[0] - share, "models by Buran instead of Extra-P"))
        if moved:
            most, name = max(moved, key=lambda pair: abs(pair[0]))
            why = f"the step that decides most: {name} ({most:+.0f} points)"
    if modeller == "buran":
        why = "Buran's modeller instead of Extra-P's" + (f"; {why}" if why else "")
    name = {"gpr": "GPR", "cpf": "CPF", "full": "full matrix"}[strategy]
    at = "" if strategy == "full" else f", {budget:g} % of the budget"
    element = f"Fig. 5: within 5 %, {name}, two parameters, {noise:g} % noise{at}"
    return Beside(
        element,
        PRINTED[noise, budget][strategy],
        share,
        unit="%",
        standard_error=error,
        samples=len(gathered[key]),
        why=why,
    )


def _share(entries: Sequence[Mapping[str, Any]], modeller: str) -> tuple[float, float]:
    """Return the share within 5 % and its standard error, in %."""
    share = float(np.mean(_errors(entries, modeller) <= LIMIT))
    return 100 * share, 100 * (share * (1 - share) / len(entries)) ** 0.5
