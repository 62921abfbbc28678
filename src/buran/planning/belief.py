"""What the models leave open: for each call path a mixture of hypotheses, as a Gaussian belief about values.

Every hypothesis within reach of the best one says a value at every point, with the uncertainty of its coefficients.
Means and covariances of that mixture over all candidate points and the target are in closed form, and so is what
a further run would change. Everything is relative to the predicted value: noise is a share of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from buran.modeling.functions.terms import ModelFunction, Term
from buran.modeling.numerics.tuning import ALLOWANCE, DEVIATIONS
from buran.modeling.pmnf import Model
from buran.modeling.pmnf.alternative import prepare
from buran.modeling.price.discrepancy import Along, Process, left_over_at, logarithms, scales_of
from buran.modeling.priors.prior import Prior
from buran.planning.observations import Observations, by_powers
from buran.planning.space import Array, Ids, Space

# Hypotheses count as no further apart than about this, in logarithms: a miss is a miss. Tuned: named by
# evidence/point-selection.md: chosen on functions of seeds other than the reported ones.
DISAGREEMENT = 0.5
# Standard deviation, as a share of the run time, of what operations of MPI take at numbers of ranks far from those
# measured: who waits there, and which algorithm is taken, is in no count. Tuned: judgement.
MPI_SPREAD = 0.1
# Of the belief that are kept; the others hold next to nothing. Tuned: judgement.
DIRECTIONS = 24

_SMALLEST = 1e-12  # of the largest prediction: what is smaller has no relative uncertainty to speak of
_SHARPEST = 1e4  # standard deviations of one run that a value is uncertain by, at most; see `TargetBelief.information`


@dataclass(frozen=True, eq=False)
class TargetBelief:
    """Uncertainty of the values at all points of a space and, last, at its target, relative to the prediction.

    Attributes
    ----------
    predicted
        Shape (call path, point): values.
    factors
        Shape (call path, point, direction): the covariance of two points is the scalar product of their rows.
    disagreement
        Shape (call path, point): the part of the covariance with the target that comes from hypotheses that
        disagree; the rest comes from coefficients and from what no hypothesis says.
    noise
        Shape (call path,): relative standard deviation of one run.
    share
        Shape (call path,): of the run time at the target; adds up to 1.
    """

    predicted: Array
    factors: Array
    disagreement: Array
    noise: Array
    share: Array

    @cached_property
    def information(self) -> Array:
        """Shape (call path, point, direction): the factors of all points in units of the noise of one run.

        Let F be the factors of a call path, f the row of the target, s the noise, n the numbers of runs at the points,
        and B these rows over s. By the Woodbury identity the variance that runs leave at the target,
        ``f'f - k' (K + s^2/n)^-1 k`` with ``K = FF'`` and ``k = Ff``, is ``f' (1 + B' n B)^-1 f``. Where a row of B is
        long, as where a model predicts next to nothing at a point, or for a call path that takes next to no time, the
        1 is lost to rounding and the sum is singular. So no row is longer than `_SHARPEST`: a run there removes all but
        ``1 / (1 + |b|^2)`` of the variance along it, and whether 1e-8 or 1e-20 of it remain changes no plan.
        """
        rows = self.factors[:, :-1]
        length = np.linalg.norm(rows, axis=2, keepdims=True)
        noise = np.maximum(self.noise[:, None, None], length / _SHARPEST)
        return np.asarray(np.divide(rows, noise, out=np.zeros_like(rows), where=noise > 0))

    @property
    def variance(self) -> float:
        """Variance of the prediction at the target, with call paths weighted by the square of their share."""
        return float(self.share**2 @ (self.factors[:, -1] ** 2).sum(axis=1))

    @property
    def expected_error(self) -> float:
        """Relative standard deviation of the prediction at the target, call paths weighing by their share."""
        return float(np.sqrt(self.variance / (self.share**2).sum()))


def belief_of(measured: Observations, space: Space, unseen: bool = True) -> TargetBelief | None:
    """Form the belief from the models of what was measured; None without a model.

    Parameters
    ----------
    unseen
        Whether what no run can show is uncertain: waiting that only more ranks show, and the part of the process at
        the target that a run at every point would leave.
    """
    paths = _Modelled.of(measured, np.vstack([space.points, space.target]))
    if paths is None:
        return None
    prepare([model.alternatives for model in paths.models])
    columns, worth, left_over = _TermColumns(paths.at, measured.points), paths.worth(), paths.left_over()
    processes, waiting = paths.processes(unseen), paths.waiting(space, unseen)
    factors = np.zeros((*paths.predicted.shape, DIRECTIONS))
    disagreement = np.zeros(paths.predicted.shape)
    for row, (model, prior) in enumerate(zip(paths.models, paths.priors, strict=True)):
        apart, inside = columns.mixture(model, worth[row], paths.predicted[row], left_over[row], prior)
        # K = A A' + C C' + P P' + W W': hypotheses, coefficients, process, waiting; K(x, t) of the first alone
        disagreement[row] = apart @ apart[-1]
        kept = fewer(np.concatenate([apart, inside, processes[row], waiting[row]], axis=1))
        factors[row, :, : kept.shape[1]] = kept
    return TargetBelief(paths.predicted, factors, disagreement, paths.noise, paths.share)


@dataclass(frozen=True, eq=False)
class _Modelled:
    """The call paths that have a model.

    Attributes
    ----------
    measured
        All call paths.
    at
        Shape (point, parameter): the points of a space and, last, its target.
    rows
        Indices among all call paths.
    models, priors
        One for each.
    predicted
        Shape (call path, point).
    share
        Shape (call path,): of the run time at the target.
    """

    measured: Observations
    at: Array
    rows: list[int]
    models: list[Model]
    priors: list[Prior | None]
    predicted: Array
    share: Array

    @classmethod
    def of(cls, measured: Observations, at: Array) -> _Modelled | None:
        """Choose them; None where there is no model."""
        values = measured.fit.predict(at)
        rows = np.flatnonzero(np.isfinite(values).all(axis=1)).tolist()
        models = [model for row in rows if (model := measured.fit.models[row]) is not None]
        if not models:
            return None
        groups = np.zeros(len(models), dtype=np.int64) if measured.groups is None else measured.groups[rows]
        most = ALLOWANCE * by_powers(measured.points, measured.means[rows], at[-1:])[:, 0]
        share = _shares(np.minimum(np.abs(values[rows, -1]), most), groups)
        return cls(measured, at, rows, models, [measured.prior_of(row) for row in rows], values[rows], share)

    @cached_property
    def noise(self) -> Array:
        """Shape (call path,): relative standard deviation of one run."""
        return self.measured.noise[self.rows]

    @cached_property
    def mean_noise(self) -> float:
        """Of call paths weighing by their share."""
        return float((self.share * self.noise).sum())

    def worth(self) -> Array:
        """Return shape (call path, measured point): reciprocal standard deviation of the mean, sqrt(n) / (s |y|)."""
        runs, means = self.measured.runs[self.rows], self.measured.means[self.rows]
        weights = np.sqrt(runs) / (self.noise[:, None] * np.where(runs > 0, 1.0, np.inf))
        return np.asarray(weights / np.where(means != 0, np.abs(means), np.inf))

    def left_over(self) -> list[Array]:
        """Return for each call path shape (hypothesis, point): what processes add to hypotheses, in nats."""
        flat = [(model.discrepancy, hypothesis.function) for model in self.models for hypothesis in model.alternatives]
        out = left_over_at([process for process, _ in flat], [function for _, function in flat], self.at)[0]
        return np.split(out, np.cumsum([len(model.alternatives) for model in self.models])[:-1])

    def processes(self, unseen: bool) -> list[Array]:
        """Return for each call path the factors (point, direction) of what its model leaves over.

        Call paths that were not timed at a point, as others polled there, are not known at it.
        """
        points, common = self.measured.points, dict[tuple[float, tuple[Along, ...], tuple[int, ...]], Array]()
        out = []
        for row, model, prior in zip(self.rows, self.models, self.priors, strict=True):
            left_over = None if prior is not None else model.discrepancy
            deviation = DEVIATIONS[-1] if left_over is None else left_over.process.deviation
            along = (Along.TREND,) * points.shape[1] if prior is None else prior.along(points.shape[1])
            kind = deviation, along, tuple(self.measured.runs[row].tolist())
            if kind not in common:
                scales = scales_of(points, np.array(along))
                factors = _process(self.at, points, self.measured.runs[row], self.mean_noise, deviation, scales)
                common[kind] = factors if unseen else _reachable(factors, self.mean_noise)
            out.append(common[kind])
        return out

    def waiting(self, space: Space, unseen: bool) -> list[Array]:
        """Return for each call path the factors (point, direction) of its waiting that only more ranks show."""
        waits = np.array([unseen and bool(self.measured.waits) and self.measured.waits[row] for row in self.rows])
        of_path = MPI_SPREAD / np.sqrt(max(waits.sum(), 1)) / np.maximum(self.share, _SMALLEST)
        common = _unseen_waiting(self.at, self.measured, space, self.mean_noise)
        return [size * common if waits_ else common[:, :0] for size, waits_ in zip(of_path, waits, strict=True)]


def _shares(size: Array, groups: Ids) -> Array:
    """Return each call path's share of its metric, divided by the number of metrics."""
    out = np.zeros(len(size))
    numbers = np.unique(groups)
    for number in numbers:
        in_metric = groups == number
        total = size[in_metric].sum()
        out[in_metric] = size[in_metric] / total if np.isfinite(total) and total > 0 else 1 / in_metric.sum()
    return out / len(numbers)


class _TermColumns:
    """Terms at all points and at the measured points, each evaluated once."""

    def __init__(self, at: Array, measured: Array) -> None:
        self._at, self._measured = at, measured
        self._terms: dict[Term, tuple[Array, Array]] = {}

    def term(self, term: Term) -> tuple[Array, Array]:
        columns = self._terms.get(term)
        if columns is None:
            columns = self._terms[term] = (term.evaluate(self._at), term.evaluate(self._measured))
        return columns

    def mixture(
        self, model: Model, weights: Array, predicted: Array, left_over: Array, prior: Prior | None = None
    ) -> tuple[Array, Array]:
        """Return factors (point, direction) of the hypotheses' disagreement, and of their coefficients.

        What each of them leaves over, in nats, is of shape (hypothesis, point). All have the coefficients of a prior.
        """
        largest = np.abs(predicted).max()
        scale = np.maximum(np.abs(predicted), _SMALLEST * largest if largest > 0 else 1.0)
        # log of each hypothesis relative to the model, bounded, as some are absurd beyond the points
        logs, inside = [], []
        for hypothesis, shift in zip(model.alternatives, left_over, strict=True):
            value = hypothesis.function.evaluate(self._at) * np.exp(shift) / scale
            bent = np.log(np.maximum(value * np.sign(predicted), _SMALLEST))
            logs.append(DISAGREEMENT * np.tanh(bent / DISAGREEMENT))
            if prior is None:
                inside.append(np.sqrt(hypothesis.weight) * self._of_terms(hypothesis.function, weights, scale))
        if prior is not None:
            # what a machine lets expect of a cost is a further point
            expected = np.array([0.0 if each.cost is None else 1 / each.cost[1] for each in prior.columns])
            rows, further = prior.design(self._measured) * weights[:, None], np.diag(expected)[expected > 0]
            inside.append(_coefficients(prior.design(self._at) / scale[:, None], np.vstack([rows, further])))
        # sum_k w_k (f_k - mean)(f_k - mean)'
        odds = np.array([hypothesis.weight for hypothesis in model.alternatives])
        apart = np.stack(logs, axis=1)
        apart = (apart - (apart @ odds)[:, None]) * np.sqrt(odds)
        return apart, np.concatenate(inside, axis=1)

    def _of_terms(self, function: ModelFunction, weights: Array, scale: Array) -> Array:
        """Return factors (point, direction) of the coefficients of a function that was searched for."""
        first = 0 if function.constant or not function.terms else 1  # a dropped constant is not uncertain
        terms = [self.term(term) for term in function.terms]
        design = np.stack([np.ones(len(self._at)), *(there for there, _ in terms)][first:], axis=1)
        fitted = np.stack([np.ones(len(self._measured)), *(values for _, values in terms)][first:], axis=1)
        return _coefficients(design / scale[:, None], fitted * weights[:, None])


def _coefficients(design: Array, fitted: Array) -> Array:
    """Return factors (point, direction) of what coefficients leave open; none where rows do not determine them.

    Parameters
    ----------
    design, fitted
        Shapes (point, coefficient) and (row, coefficient), the latter in units of the noise.
    """
    # columns of length 1: their scales differ by powers of the parameters
    fitted = fitted[fitted.any(axis=1)]
    length = np.linalg.norm(fitted, axis=0)
    length = np.where(length > 0, length, 1.0)
    if len(fitted) >= fitted.shape[1]:
        # cov(X b) = X (R'R)^-1 X', so that X R^-1 are its factors
        r = np.asarray(np.linalg.qr(fitted / length, mode="r"), dtype=np.float64)
        if np.abs(np.diag(r)).min(initial=1.0) > 1e-9:
            return np.asarray(np.linalg.solve(r.T, (design / length).T).T)
    return np.zeros((len(design), 0))


def _process(
    at: Array, measured: Array, counts: Ids, noise: float, deviation: float, scales: tuple[Array, Array]
) -> Array:
    """Return factors (point, direction) of what models leave over, after what was measured.

    The process is that of the estimator, see `buran.modeling.price.discrepancy`: runs where none was made lower its
    variance.
    """
    present = counts > 0
    process = Process(measured[present], *scales, deviation, noise)
    cross, points = logarithms(at, measured[present]), logarithms(measured[present], measured[present])
    # K(a, a) - K(a, m) (K(m, m) + noise^2 / runs)^-1 K(m, a)
    across = process.covariance(cross, points)
    known = process.covariance(points, points) + np.diag(noise**2 / counts[present])
    covariance = process.covariance(cross, cross) - across @ np.linalg.solve(known, across.T)
    return _pivoted(covariance)


def _reachable(factors: Array, noise: float) -> Array:
    """Return factors (point, direction) whose last row, the target, has what one run at each other point would show."""
    candidates, target = factors[:-1], factors[-1]
    # f' = F' (F F' + s^2 I)^-1 F f
    gram = candidates @ candidates.T + max(noise, _SMALLEST) ** 2 * np.eye(len(candidates))
    return np.vstack([candidates, candidates.T @ np.linalg.solve(gram, candidates @ target)])


def _unseen_waiting(at: Array, measured: Observations, space: Space, noise: float) -> Array:
    """Return factors (point, direction) of what only more ranks show, of standard deviation 1; none without ranks.

    Who waits for whom, which algorithm a collective operation takes and how many switches messages pass depends on the
    number of ranks, at all sizes, and is in no count.
    """
    if space.ranks is None:
        return np.zeros((len(at), 0))
    ranks = [space.parameters.index(space.ranks)]
    scales = scales_of(measured.points[:, ranks], Along.TREND)
    return _process(at[:, ranks], measured.points[:, ranks], measured.counts, noise / MPI_SPREAD, 1.0, scales)


def _pivoted(covariance: Array) -> Array:
    """Return a Cholesky factor (point, direction) of a covariance, the largest variances first."""
    rest = covariance.diagonal().copy()
    out = np.zeros((len(covariance), DIRECTIONS))
    for k in range(DIRECTIONS):
        pivot = int(np.argmax(rest)) if k else len(rest) - 1  # the target is represented exactly
        if rest[pivot] <= 1e-12:
            break
        out[:, k] = (covariance[pivot] - out @ out[pivot]) / np.sqrt(rest[pivot])
        rest -= out[:, k] ** 2
    return out


def fewer(factors: Array, directions: int = DIRECTIONS) -> Array:
    """Keep the directions in which the belief is widest, always those that the target needs."""
    if factors.shape[1] > len(factors):  # a rotation brings them into as many directions as there are points
        # without squares of the factors: rounding errors are then relative to each point's own uncertainty
        factors = np.asarray(np.linalg.qr(factors.T, mode="r")).T
    if factors.shape[1] <= directions:
        return factors
    kept = np.linalg.svd(factors, full_matrices=False)[2][: directions - 1].T
    target = factors[-1]
    orthogonal = target - kept @ (kept.T @ target)
    norm = np.linalg.norm(orthogonal)
    turn = np.column_stack([kept, orthogonal / norm]) if norm > 1e-12 else kept
    return np.asarray(factors @ turn)
