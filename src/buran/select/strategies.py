"""All strategies by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from buran.errors import UsageError
from buran.select.design import Design
from buran.select.gpr import GPR, Bayes, Hybrid
from buran.select.protocol import Strategy
from buran.select.simple import ONCE, TWICE, Base, Fixed, Ordered
from buran.select.tensor_guided import TensorGuided


def _hybrid(base: Base, repetitions: int, patience: int | None) -> Strategy:
    return Hybrid(Ordered("cheapest", base, repetitions), GPR(base, patience=patience), base)


_MAKERS: Mapping[str, Callable[[Base, int, int | None], Strategy]] = {
    "full": lambda base, repetitions, patience: Fixed(False, repetitions),
    "lines": lambda base, repetitions, patience: Fixed(True, repetitions),
    "cpf": lambda base, repetitions, patience: Ordered("cheapest", base, repetitions, patience),
    "gpr": lambda base, repetitions, patience: GPR(base, patience=patience),
    "gpr-literal": lambda base, repetitions, patience: GPR(base, literal=True, patience=patience),
    "hybrid": _hybrid,
    "random": lambda base, repetitions, patience: Ordered("random", base, repetitions),
    "grid": lambda base, repetitions, patience: Ordered("grid", base, repetitions),
    "bayes": lambda base, repetitions, patience: Bayes("ei", base),
    "ucb": lambda base, repetitions, patience: Bayes("ucb", base),
    "tensor": lambda base, repetitions, patience: TensorGuided(base),
    "design": lambda base, repetitions, patience: Design(base),
}
NAMES = tuple(_MAKERS)


def strategy_of(
    name: str,
    *,
    base: Base | None = None,
    repetitions: int = 2,
    patience: int | None = None,
    accuracy: float | None = None,
) -> Strategy:
    """Make a strategy.

    Parameters
    ----------
    base
        How it begins; by default with two repetitions of each point, `design` and `tensor` with one.
    repetitions
        Of each point, for strategies that do not choose them.
    patience
        Rounds without a better fit that end it; None for never.
    accuracy
        Relative half width of the interval at the target that is enough, for `design`.

    Raises
    ------
    UsageError
        There is none of this name, or it knows no accuracy.
    """
    if name not in _MAKERS:
        raise UsageError(f"there is no strategy {name!r}", hint=f"choose from {', '.join(NAMES)}")
    if accuracy is not None:
        if name != "design":
            raise UsageError(f"the strategy {name!r} cannot aim at an accuracy", hint="choose design")
        return Design(base or ONCE, accuracy)
    return _MAKERS[name](base or (ONCE if name in ("design", "tensor") else TWICE), repetitions, patience)
