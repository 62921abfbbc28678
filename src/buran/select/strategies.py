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
BASES = ("cheapest", "lines", "spread")


def base_of(name: str, kind: str | None = None, repetitions: int | None = None) -> Base:
    """Return how a strategy begins.

    Parameters
    ----------
    kind
        ``cheapest``, the default: lines of the five cheapest points, and one point off them for each parameter;
        ``lines``: without these points; ``spread``: values from the whole range of each parameter.
    repetitions
        Of each point; by default two, for `design` and `tensor` one.
    """
    own = repetitions or (ONCE if name in ("design", "tensor") else TWICE).repetitions
    return Base(own, off_lines=kind != "lines", spread=kind == "spread")


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
        How it begins; by default as `base_of` says.
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
        return Design(base or base_of(name), accuracy)
    return _MAKERS[name](base or base_of(name), repetitions, patience)
