"""The robust default: positive terms or an average, accepted only where cross-validation says that they help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from buran.modeling.correction.average import Average, averaged
from buran.modeling.correction.base import BaseModel
from buran.modeling.correction.corrected import Corrected, CorrectionReport
from buran.modeling.correction.data import Data, spawned
from buran.modeling.correction.domain import objection, without_time
from buran.modeling.correction.formula import Array
from buran.modeling.correction.gate import Gate, Masks
from buran.modeling.correction.residual import fit_residual
from buran.modeling.correction.terms import Problem, TermModel, fit_base, grow, library
from buran.modeling.correction.thresholds import find_thresholds
from buran.modeling.numerics.tuning import COMBINATIONS, MATTERS

# Points below which no correction can be judged. Tuned: judgement.
FEWEST_POINTS = 8

Errors = Mapping[str, float]
Candidates = Mapping[str, Corrected]

_FOLDS = 0  # first number of the seeds' keys


@dataclass(frozen=True)
class Competition:
    """What is tried.

    Attributes
    ----------
    formula
        Whether the correction must be one formula: no average, no Gaussian process.
    gate
        What is asked of a correction; None takes the best without a test.
    seed
        Seed of the folds.
    """

    formula: bool = False
    gate: Gate | None = field(default_factory=Gate)
    seed: int = 0


def correct_robustly(base: BaseModel, data: Data, options: Competition) -> Corrected:
    """Correct a base model where that is worth it; see `Gate` for what decides."""
    gate = options.gate or Gate()
    everything = np.ones((1, len(data.points)), dtype=bool)
    first = fit_base(Problem(base, data.points, data.logs, everything))[0]
    report = CorrectionReport(True, "", notes=_notes(base, first, data), points=len(data.points), seed=options.seed)
    plain = replace(_corrected(base, first, data.points), report=report)
    scale = _scale(base, data.points, np.array(first.theta))
    if reason := _nothing_to_judge(first, data):
        return _refused(plain, reason, *_errors_alone(base, data, first, gate, scale))
    masks = gate.masks(scale, spawned(options.seed, _FOLDS)) if options.gate else everything[:0]
    contest = _Contest.of(Problem(base, data.points, data.logs, np.concatenate([everything, masks])), options)
    candidates = contest.candidates(0)
    formulas = [name for name, candidate in candidates.items() if candidate.process is None and name != "base"]
    if not formulas:
        return _refused(plain, "no term of the library has any influence at these points")
    if options.gate is None:
        some = [candidates[name] for name in formulas]
        chosen = min(some, key=lambda one: one.terms.best.cost if one.terms else np.inf)
        against = objection(chosen, data.points)
        return _refused(plain, against) if against else _taken(plain, chosen, reason="taken without a test")
    errors, beyond = contest.cross_validated(gate, list(candidates))
    return _best_taken(gate, contest.problem, plain, candidates, errors, beyond)


def _nothing_to_judge(fitted: TermModel, data: Data) -> str:
    """Say why no correction can be judged; empty where one can."""
    level = float(np.sqrt(fitted.cost / len(data.points)))
    if level <= MATTERS:
        return f"the base model already fits: it is {100 * level:.2g} % off on average"
    if len(data.points) < FEWEST_POINTS:
        return f"{len(data.points)} points are too few to evaluate a correction; {FEWEST_POINTS} are wanted"
    return ""


def _refused(plain: Corrected, reason: str, errors: Errors | None = None, ahead: Errors | None = None) -> Corrected:
    """Return the base model with the reason why it stays as it is."""
    return replace(plain, report=replace(plain.report, reason=reason, errors=errors or {}, forward=ahead or {}))


def _taken(plain: Corrected, candidate: Corrected, **report: Any) -> Corrected:
    """Return a candidate, with a report like that of the base model but for these fields."""
    return replace(candidate, report=replace(plain.report, refused=False, **report))


def _best_taken(
    gate: Gate, problem: Problem, plain: Corrected, candidates: Candidates, errors: Errors, beyond: Mapping[str, Array]
) -> Corrected:
    """Return the best candidate that the gate and the domain let pass, else the base model.

    Parameters
    ----------
    errors, beyond
        By candidate: mean error at left-out points, and errors at the largest points, shape (point,).
    """
    ahead = {name: float(each.mean()) for name, each in beyond.items()}
    remaining = {name: error / errors["base"] for name, error in errors.items() if name != "base"}
    formulas = [name for name in remaining if candidates[name].process is None]
    objections: list[str] = []
    while left := [name for name in formulas if name in remaining]:
        chosen = gate.choose(remaining, left)
        candidate = candidates[chosen]
        reason = gate.reason_against(remaining[chosen], beyond["base"], beyond[chosen])
        if reason is not None and chosen in formulas:
            return _refused(plain, "; ".join([*objections, reason]), errors, ahead)
        against = reason or objection(candidate, problem.points)
        if against is None:
            fall = f"from {100 * errors['base']:.2g} % to {100 * errors[chosen]:.2g} %"
            why = f"{chosen}: at points that were left out the error falls {fall}"
            thresholds = () if candidate.terms is None else find_thresholds(problem, candidate.terms.best)
            said = {"thresholds": thresholds, "notes": (*plain.report.notes, *objections)}
            return _taken(plain, candidate, reason=why, errors=errors, forward=ahead, **said)
        objections.append(f"{chosen} is not taken: {against}")
        del remaining[chosen]
    return _refused(plain, "; ".join(objections), errors, ahead)


def _errors_alone(
    base: BaseModel, data: Data, fitted: TermModel, gate: Gate, scale: Array
) -> tuple[dict[str, float], dict[str, float]]:
    """Return mean errors of a base model that nothing competes with: at its points, and at the largest from the others.

    None where there are not more points than parameters.
    """
    count, parameters = len(data.points), len(base.parameters)
    seen = gate.masks(scale, spawned(0, _FOLDS))[-1]
    if seen.sum() <= parameters or seen.all():
        return {}, {}
    again = fit_base(Problem(base, data.points, data.logs, seen[None]))[0]
    with np.errstate(all="ignore"):
        gaps = [np.abs(np.log(base.evaluate(np.array(one.theta), data.points)) - data.logs) for one in (fitted, again)]
    inside, ahead = float(gaps[0].mean()) * (count / (count - parameters)) ** 0.5, float(gaps[1][~seen].mean())
    return {"base": inside}, {"base": ahead} if np.isfinite(ahead) else {}


def _corrected(base: BaseModel, fitted: TermModel, points: Array) -> Corrected:
    low, high = tuple(points.min(axis=0).tolist()), tuple(points.max(axis=0).tolist())
    return Corrected(base, fitted.theta, low, high, CorrectionReport(True, ""))


@dataclass(frozen=True, eq=False)
class _Contest:
    """What competes, made from all points (search 0) and from those of each fold (the others).

    Attributes
    ----------
    problem
        Base model and points; its masks are the searches.
    bases, models
        For each search the fitted base model, and the models with terms.
    options
        What is tried.
    """

    problem: Problem
    bases: Sequence[TermModel]
    models: Sequence[Sequence[TermModel]]
    options: Competition

    @classmethod
    def of(cls, problem: Problem, options: Competition) -> _Contest:
        """Fit the base model and grow those with terms, in all searches."""
        bases = fit_base(problem)
        return cls(problem, bases, grow(problem, bases, library(problem.base, problem.points)), options)

    def candidates(self, search: int) -> dict[str, Corrected]:
        """Return everything that competes, made from the points that a search may see."""
        problem, options, base, used = self.problem, self.options, self.problem.base, self.problem.used[search]
        points, logs = problem.points[used], problem.logs[used]
        fitted = self.bases[search]
        theta = np.array(fitted.theta)
        plain = _corrected(base, fitted, points)
        out = {"base": plain}
        usable = [model for model in self.models[search] if model.terms and np.isfinite(model.cost)]
        if options.formula:
            for count in sorted({len(model.terms) for model in usable}):
                best = min((model for model in usable if len(model.terms) == count), key=lambda model: model.cost)
                out[f"{count} term{'s' if count > 1 else ''}"] = replace(plain, terms=Average((best,), (1.0,)))
        elif usable:
            out["terms"] = replace(plain, terms=averaged(usable))
        if not options.formula and len(points) <= COMBINATIONS:
            process = fit_residual(points, logs - np.log(base.evaluate(theta, points)))
            terms = {name: candidate for name, candidate in out.items() if candidate.terms is not None}
            out["process"] = replace(plain, process=process)
            out |= {f"{name} and process": replace(candidate, process=process) for name, candidate in terms.items()}
        return out

    def cross_validated(self, gate: Gate, names: Sequence[str]) -> tuple[dict[str, float], dict[str, Array]]:
        """Return mean errors at left-out points and errors at the largest points, by candidate."""

        def predict(fold: int, left_out: Masks) -> Array:
            candidates = self.candidates(fold + 1)
            at = self.problem.points[left_out]
            rows = []
            for name in names:
                # A fold whose points allow fewer terms stays with what it has.
                candidate = candidates.get(name) or _fewer(candidates, name)
                with np.errstate(invalid="ignore"):
                    rows.append(np.log(candidate.predict(at).value))
            return np.asarray(np.nan_to_num(np.array(rows), nan=np.inf))

        errors, ahead = gate.scores(self.problem.used[1:], self.problem.logs, predict)
        return dict(zip(names, errors.mean(axis=1).tolist(), strict=True)), dict(zip(names, ahead, strict=True))


def _fewer(candidates: Candidates, name: str) -> Corrected:
    process = "process" in name
    return next(model for model in reversed(list(candidates.values())) if (model.process is not None) == process)


def _scale(base: BaseModel, points: Array, theta: Array) -> Array:
    """Return how large each run is, by the first that distinguishes runs.

    The variables declared so, the base model's time, all variables, the first one.
    """
    columns = [i for i, variable in enumerate(base.variables.values()) if variable.scale]
    declared = [np.prod(points[:, columns], axis=1)] if columns else []
    sizes = [*declared, base.evaluate(theta, points), np.prod(points, axis=1), points[:, 0]]
    return np.asarray(next(size for size in sizes if size.min() < size.max()))


def _notes(base: BaseModel, fitted: TermModel, data: Data) -> tuple[str, ...]:
    notes = []
    for (name, parameter), value in zip(base.parameters.items(), fitted.theta, strict=True):
        for end, bound in (("lower", parameter.lower), ("upper", parameter.upper)):
            if abs(value - bound) <= 1e-6 * max(parameter.upper - parameter.lower, abs(bound)):
                notes.append(f"{name} was fitted to its {end} bound {bound:g}")
    for i, (name, variable) in enumerate(base.variables.items()):
        low, high = data.points[:, i].min(), data.points[:, i].max()
        least, most = variable.range or (low, high)
        if low < least or high > most:
            notes.append(f"{name} was measured from {low:g} to {high:g}, beyond its declared range")
    if not any(variable.scale for variable in base.variables.values()):
        notes.append("no variable is declared to be a scale: the longest runs are the ones predicted from the others")
    if len(data.points) > COMBINATIONS:
        notes.append(f"with more than {COMBINATIONS} points no Gaussian process is tried")
    wrong = without_time(base, np.array(fitted.theta), data.points)
    if wrong is not None:
        notes.append(f"{wrong}: there is nothing to correct, and no prediction")
    return tuple(notes)
