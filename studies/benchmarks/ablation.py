"""What each part of the modeller is worth: models of generated functions without it, one part at a time.

    python studies/benchmarks/ablation.py [--functions 120] [--seed 31337] [--parts NAME ...]

Functions, layouts, noise (5 %) and the point to predict are those of `studies/benchmarks/modeller.py`; another seed
gives other functions. Printed are the shares within 5 and 20 % for truths inside and outside the search space, the mean
of the errors (each at most 100 %), how often 90 % intervals of the mean hold, and the median of their half widths.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from buran.modeling.fit import fit_models
from buran.modeling.pmnf.beam import Costs
from buran.modeling.pmnf.repetitions import over_repetitions, scatter_of
from buran.modeling.pmnf.search import SearchOptions
from buran_studies.functions import beyond, draw, draw_outside, kind_inside, kind_outside
from modeller import layout, noisy

Array = NDArray[np.float64]

LAYOUTS = ((1, "full"), (2, "full"), (2, "lines+m"), (3, "lines+m"))
NOISE = 5.0


def _without(name: str, replacement: Callable[..., object]) -> Callable[[], object]:
    return partial(patch, name, replacement)


def _zero(cost: str) -> SearchOptions:
    return SearchOptions(costs=replace(Costs(), **{cost: 0.0}))


PARTS: dict[str, Callable[[], object] | SearchOptions] = {
    "nothing": SearchOptions(),
    "process": _without("buran.modeling.fit.with_discrepancies", lambda points, values, models, *rest: list(models)),
    "structures": _without(
        "buran.modeling.pmnf.block.with_structures", lambda alternatives, *rest: tuple(alternatives)
    ),
    "few values": _without("buran.modeling.pmnf.block.with_other_growth", lambda groups, points: groups),
    **{f"cost: {cost}": _zero(cost) for cost in Costs.__dataclass_fields__},
    **{f"{terms} terms": SearchOptions(max_terms=terms) for terms in (2, 3)},
    **{f"{terms} a parameter": SearchOptions(terms_per_parameter=terms) for terms in (1, 2)},
}


@dataclass(frozen=True)
class Cell:
    """Functions of one layout: points, repetitions (function, point, repetition), the target and its true values."""

    points: Array
    values: Array
    at: Array
    true: Array

    @classmethod
    def of(cls, parameters: int, kind: str, inside: bool, functions: int, seed: int) -> Cell:
        """Draw functions and measure them."""
        points, at = layout(parameters, kind), beyond(parameters)[None]
        rng = np.random.default_rng([seed, parameters, inside])
        drawn = [
            draw(parameters, rng, kind_inside(parameters, k))
            if inside
            else draw_outside(parameters, rng, kind_outside(k))
            for k in range(functions)
        ]
        exact = np.stack([function.evaluate(points) for function in drawn])
        true = np.array([float(np.ravel(function.evaluate(at))[0]) for function in drawn])
        return cls(points, noisy(exact, NOISE, np.random.default_rng([seed, 7, parameters])), at, true)

    def judged(self, options: SearchOptions) -> tuple[Array, Array, Array]:
        """Return relative errors, whether intervals hold, and their half widths, each of shape (function,)."""
        means = over_repetitions(self.values, "mean")
        fit = fit_models(self.points, means, scatter=scatter_of(self.values), options=options)
        low, high = (ends[:, 0] for ends in fit.predict_interval(self.at, 0.9, "mean"))
        error = np.abs(fit.predict(self.at)[:, 0] / self.true - 1)
        return error, (low <= self.true) & (self.true <= high), (high - low) / 2 / np.abs(self.true)


def main() -> None:
    """Print a row for each part that is left out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", type=int, default=120)
    parser.add_argument("--seed", type=int, default=31337)
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="NAME")
    options = parser.parse_args()
    cells = [
        Cell.of(parameters, kind, inside, options.functions, options.seed)
        for parameters, kind in LAYOUTS
        for inside in (True, False)
    ]
    names = [f"{m} {kind[:5]} {where}" for m, kind in LAYOUTS for where in ("in", "out")]
    print("| without | " + " | ".join(names) + " | mean error, % | held, % | +-, % |")
    print("| --- |" + " --- |" * (len(names) + 3))
    for name in options.parts:
        part = PARTS[name]
        with ExitStack() as stack:
            if not isinstance(part, SearchOptions):
                stack.enter_context(part())  # type: ignore[arg-type]
            judged = [cell.judged(part if isinstance(part, SearchOptions) else SearchOptions()) for cell in cells]
        shares = [f"{100 * np.mean(error <= 0.05):.0f}/{100 * np.mean(error <= 0.2):.0f}" for error, _, _ in judged]
        figures = (
            np.mean([np.minimum(error, 1.0).mean() for error, _, _ in judged]),
            np.mean([held.mean() for _, held, _ in judged]),
            np.mean([np.median(width) for _, _, width in judged]),
        )
        print(f"| {name} | " + " | ".join(shares) + "".join(f" | {100 * figure:.1f}" for figure in figures) + " |")


if __name__ == "__main__":
    main()
