"""Whether one model grows faster than another, by all hypotheses that compete for either."""

from __future__ import annotations

from buran.modeling.numerics.tuning import NEARLY
from buran.modeling.pmnf.basis import Lead
from buran.modeling.pmnf.model import Model


def faster_in(first: Model, second: Model, parameters: int) -> tuple[int, ...]:
    """Return the parameters with which the second model grows faster, by at least `NEARLY` of the hypotheses.

    Every hypothesis of the one meets every hypothesis of the other, with the product of their weights. Sums have none
    but themselves.
    """
    return tuple(parameter for parameter in range(parameters) if _chance(first, second, parameter) >= NEARLY)


def _chance(first: Model, second: Model, parameter: int) -> float:
    one, other = leads_of(first, parameter), leads_of(second, parameter)
    return sum(a * b for earlier, a in one.items() for later, b in other.items() if later > earlier)


def leads_of(model: Model, parameter: int) -> dict[Lead, float]:
    """Return the weights of the different ways in which a model's hypotheses grow with a parameter."""
    if not model.alternatives:
        return {model.function.lead(parameter): 1.0}
    out: dict[Lead, float] = {}
    for alternative in model.alternatives:
        lead = alternative.function.lead(parameter)
        out[lead] = out.get(lead, 0.0) + alternative.weight
    return out
