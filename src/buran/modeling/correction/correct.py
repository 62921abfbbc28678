"""A base model and measurements become a corrected model, only where cross-validation says that it helps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from buran.errors import UsageError
from buran.modeling.correction import gate
from buran.modeling.correction.base import BaseModel
from buran.modeling.correction.corrected import Corrected, CorrectionReport
from buran.modeling.correction.data import Data, prepare, spawned
from buran.modeling.correction.fit import Problem, find_thresholds, fit_base, grow
from buran.modeling.correction.formula import Array
from buran.modeling.correction.mecp.trees import CASES, Case
from buran.modeling.correction.mecp.trials import TRIALS, correct_as_published
from buran.modeling.correction.terms import Average, TermModel, averaged, fit_residual, library
from buran.modeling.numerics.tuning import COMBINATIONS, MATTERS

# Case of the published procedure without a choice. Published: in the text.
MOST_ROBUST: Case = 4
# Points below which no correction can be judged. Tuned: judgement.
FEWEST_POINTS = 8

Preset = Literal["robust", "published"]
Errors = Mapping[str, float]
Candidates = Mapping[str, Corrected]

_FOLDS = 0  # first number of the seeds' keys


def correct(
    base: BaseModel, points: ArrayLike | Mapping[str, ArrayLike], values: ArrayLike, *, preset: Preset = "robust",
    case: Literal["terms"] | Case | None = None, seed: int = 0,
    trials: int = TRIALS, progress: Callable[[int], None] = lambda _: None,
) -> Corrected:  # fmt: skip
    """Correct an analytical model by measurements.

    Parameters
    ----------
    base
        The model.
    points, values
        Columns by the variables' names, or shape (point, variable); times of shape (point,).
    preset
        ``robust``, or ``published`` for the procedure of the MECP paper.
    case
        ``terms``: a formula of positive terms; None: the best of terms, a Gaussian process and their average. With
        ``published`` one of its cases 1 to 4; None: case 4.
    seed
        Of everything random; the same seed gives the same model.
    trials, progress
        Of the published procedure; `progress` is told how many are done.

    Raises
    ------
    UsageError
        For measurements that cannot be used, and choices that do not exist.
    """
    if case not in (None, "terms", *CASES):
        raise UsageError(f"there is no case {case!r}", hint="one of terms, 1, 2, 3, 4")
    if preset not in ("robust", "published"):
        raise UsageError(f"there is no preset {preset!r}", hint="robust or published")
    if preset == "robust" and case in (None, "terms"):
        return _robustly(base, prepare(base, points, values), formula=case == "terms", seed=seed)
    if preset == "published" and case != "terms":
        data = prepare(base, points, values)
        return correct_as_published(base, data, case or MOST_ROBUST, trials, seed, progress)
    raise UsageError(f"case {case} is of the other preset", hint="robust has the case terms, published 1 to 4")


def _robustly(base: BaseModel, data: Data, *, formula: bool, seed: int) -> Corrected:
    """Correct a base model where that is worth it; `formula`: by one formula, no average and no Gaussian process."""
    problem = Problem(base, data.points, data.logs, np.ones((1, len(data.points)), dtype=bool))
    fitted = fit_base(problem)[0]
    report = CorrectionReport(True, "", notes=_notes(base, fitted, data), points=len(data.points), seed=seed)
    plain = Corrected.of(base, fitted.theta, data.points, report)
    masks = gate.masks(_scale(base, data.points, np.array(fitted.theta)), spawned(seed, _FOLDS))
    if reason := _nothing_to_judge(fitted, data):
        return _refused(plain, reason, *_errors_alone(problem, fitted, masks[-1]))
    contest = Contest(replace(problem, used=np.concatenate([problem.used, masks])), formula)
    candidates = contest.candidates(0)
    if all(candidate.terms is None for candidate in candidates.values()):
        return _refused(plain, "no term of the library has any influence at these points")
    errors, beyond = contest.cross_validated(list(candidates))
    return _best_taken(problem, plain, candidates, errors, beyond)


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


def _best_taken(
    problem: Problem, plain: Corrected, candidates: Candidates, errors: Errors, beyond: Mapping[str, Array]
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
        chosen = gate.best_of(remaining, left)
        candidate = candidates[chosen]
        reason = gate.reason_against(remaining[chosen], beyond["base"], beyond[chosen])
        if reason is not None and chosen in formulas:
            return _refused(plain, "; ".join([*objections, reason]), errors, ahead)
        against = reason or gate.objection(candidate, problem.points)
        if against is None:
            fall = f"from {100 * errors['base']:.2g} % to {100 * errors[chosen]:.2g} %"
            why = f"{chosen}: at points that were left out the error falls {fall}"
            thresholds = () if candidate.terms is None else find_thresholds(problem, candidate.terms.best)
            report = replace(plain.report, refused=False, reason=why, notes=(*plain.report.notes, *objections))
            return replace(candidate, report=replace(report, errors=errors, forward=ahead, thresholds=thresholds))
        objections.append(f"{chosen} is not taken: {against}")
        del remaining[chosen]
    return _refused(plain, "; ".join(objections), errors, ahead)


def _errors_alone(
    problem: Problem, fitted: TermModel, seen: NDArray[np.bool_]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return mean errors of a base model that nothing competes with: at its points, and at the largest from the others.

    None where there are not more points than parameters.
    """
    base, count, parameters = problem.base, len(problem.points), len(problem.base.parameters)
    if seen.sum() <= parameters or seen.all():
        return {}, {}
    again = fit_base(replace(problem, used=seen[None]))[0]
    with np.errstate(all="ignore"):
        values = (base.evaluate(np.array(one.theta), problem.points) for one in (fitted, again))
        inside, ahead = (np.abs(np.log(value) - problem.logs) for value in values)
    error, forward = float(inside.mean()) * (count / (count - parameters)) ** 0.5, float(ahead[~seen].mean())
    return {"base": error}, {"base": forward} if np.isfinite(forward) else {}


class Contest:
    """What competes, made from all points (search 0) and from those of each fold (the others).

    Parameters
    ----------
    problem
        Base model and points; its masks are the searches.
    formula
        Whether the correction must be one formula.
    """

    def __init__(self, problem: Problem, formula: bool = False) -> None:
        self.problem, self.formula = problem, formula
        self.bases = fit_base(problem)
        self.models = grow(problem, self.bases, library(problem.base, problem.points))

    def candidates(self, search: int) -> dict[str, Corrected]:
        """Return everything that competes, made from the points that a search may see."""
        base, used = self.problem.base, self.problem.used[search]
        points, logs = self.problem.points[used], self.problem.logs[used]
        theta = self.bases[search].theta
        plain = Corrected.of(base, theta, points, CorrectionReport(True, ""))
        out = {"base": plain}
        usable = [model for model in self.models[search] if model.terms and np.isfinite(model.cost)]
        if self.formula:
            for count in sorted({len(model.terms) for model in usable}):
                best = min((model for model in usable if len(model.terms) == count), key=lambda model: model.cost)
                out[f"{count} term{'s' if count > 1 else ''}"] = replace(plain, terms=Average((best,), (1.0,)))
            return out
        if usable:
            out["terms"] = replace(plain, terms=averaged(usable))
        if len(points) <= COMBINATIONS:
            process = fit_residual(points, logs - np.log(base.evaluate(np.array(theta), points)))
            out["process"] = replace(plain, process=process)
            if usable:
                out["terms and process"] = replace(out["terms"], process=process)
        return out

    def cross_validated(self, names: Sequence[str]) -> tuple[dict[str, float], dict[str, Array]]:
        """Return mean errors at left-out points and errors at the largest points, by candidate."""
        inside = np.empty((len(names), len(self.problem.logs)))
        for search, seen in enumerate(self.problem.used[1:], 1):
            ahead = self._errors(search, names)
            if search < len(self.problem.used) - 1:
                inside[:, ~seen] = ahead
        return dict(zip(names, inside.mean(axis=1).tolist(), strict=True)), dict(zip(names, ahead, strict=True))

    def _errors(self, search: int, names: Sequence[str]) -> Array:
        """Return shape (candidate, left-out point); infinite where there is no prediction."""
        left_out, candidates = ~self.problem.used[search], self.candidates(search)
        # a fold whose points allow fewer terms stays with what it has
        fewer = [candidates.get(name) or _fewer(candidates, name) for name in names]
        with np.errstate(invalid="ignore"):
            found = np.log([each.predict(self.problem.points[left_out]).value for each in fewer])
        out: Array = np.abs(np.where(np.isnan(found), np.inf, found) - self.problem.logs[left_out])
        return out


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
    wrong = gate.without_time(base, np.array(fitted.theta), data.points)
    if wrong is not None:
        notes.append(f"{wrong}: there is nothing to correct, and no prediction")
    return tuple(notes)
