"""The cells of the evaluation of point selection: which strategy under which protocol with which budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from buran.errors import UsageError

FAIR, TWO, RELEARN, EXECUTED = "fair", "two", "relearn", "executed"
PRESETS = ("default", "main", "others", "noise", "known", "wide", "relearn", "executed")
MAIN = ("design", "gpr", "cpf", "random")
NOISES = ("uniform", "gaussian", "poisson", "exponential", "mixed")
RIVALS = ("full", "cpf", "gpr", "hybrid", "random", "grid", "bayes", "ucb")
TERMS_KNOWN = "design, terms known"
_PARAMETERS = ("2", "3", "4")


@dataclass(frozen=True)
class Cell:
    """One strategy under one set of circumstances.

    Attributes
    ----------
    protocol
        ``fair``: one repetition of the base for all, points that do not fit are left out; ``two``: two repetitions,
        a function whose base exceeds the budget is a miss; ``relearn``: real data; ``executed``: programs on a
        simulated machine. The paper's own protocol is `buran_studies.selection.published`.
    budget
        Percent of the full matrix.
    truths
        ``inside`` the space; ``all``: every second one outside.
    """

    protocol: str
    parameters: int
    noise: float
    pattern: str
    budget: float
    strategy: str
    truths: str = "all"

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Cell:
        """Read what `to_json` gives; further keys are left alone."""
        return cls(**{name: data[name] for name in cls.__dataclass_fields__})

    @property
    def name(self) -> str:
        """For people."""
        if self.protocol == RELEARN:
            return f"{self.strategy}, RELeARN, B = {self.budget:g} %"
        if self.protocol == EXECUTED:
            return f"{self.strategy}, executed programs, {self.noise:g} % noise, B = {self.budget:g} %"
        noise = f"{self.noise:g} % noise" + ("" if self.pattern == "uniform" else f" ({self.pattern})")
        protocol = {FAIR: "", TWO: ", base twice"}[self.protocol]
        return f"{self.strategy}, m = {self.parameters}, {noise}, B = {self.budget:g} %{protocol}"


# What the figures are judged by; `design` and what it is compared with.
HEADLINE = ((2, 5.0, 5.0), (2, 5.0, 10.0), (2, 5.0, 20.0), (2, 10.0, 10.0), (3, 5.0, 2.0), (4, 5.0, 0.5))
GOALS: Mapping[tuple[int, float, float], str] = {
    (2, 5.0, 5.0): "at least 90",
    (2, 5.0, 10.0): "at least 95",
    (2, 5.0, 20.0): "at least 97",
    (2, 10.0, 10.0): "at least 80",
    (3, 5.0, 2.0): "at least 80",
    (4, 5.0, 0.5): "ahead of every other strategy",
}
PRIOR = ((2, 5.0, 1.0), (2, 5.0, 3.0), (3, 5.0, 1.0))
_WIDE_BUDGETS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_RELEARN_BUDGETS = (10.0, 15.0, 20.0, 30.0, 50.0)
_EXECUTED_BUDGETS = (5.0, 10.0, 20.0)


def cells(preset: str, quick: bool, with_data: bool) -> tuple[Cell, ...]:
    """Return the cells of a preset; with ``-m2``, ``-m3`` or ``-m4`` behind its name those of so many parameters.

    Raises
    ------
    UsageError
        There is none of this name, or it needs data.
    """
    name, _, only = preset.partition("-m")
    if name not in PRESETS or only not in ("", *_PARAMETERS):
        raise UsageError(
            f"the study selection has no preset {preset!r}",
            hint=f"choose from published, {', '.join(PRESETS)}, all but the first with -m2, -m3 or -m4 "
            "for so many parameters alone",
        )
    if name == "default":
        found = list(_quick() if quick else _default()) + (_relearn() if with_data else [])
    elif name == "wide":
        found = list(_wide(quick))
    else:
        found = list(
            {
                "main": _main,
                "others": _others,
                "known": _known,
                "noise": _noise,
                "relearn": _relearn,
                "executed": _executed,
            }[name]()
        )
    return tuple(cell for cell in found if not only or cell.parameters == int(only))


def _of(protocol: str, strategy: str, parameters: int, noise: float, budget: float, pattern: str = "uniform") -> Cell:
    return Cell(protocol, parameters, noise, pattern, budget, strategy)


def _main() -> Iterator[Cell]:
    for each in HEADLINE:
        for strategy in MAIN:
            yield _of(FAIR, strategy, *each)
    for parameters in (2, 3):  # what no choice of points can be expected to beat
        yield _of(FAIR, "full", parameters, 5.0, 100.0)


def _others() -> Iterator[Cell]:
    for each in HEADLINE:
        for strategy in RIVALS:
            if strategy not in MAIN:
                yield _of(FAIR, strategy, *each)
    for budget in (5.0, 10.0, 20.0):
        for strategy in MAIN[:3]:
            yield _of(TWO, strategy, 2, 5.0, budget)


def _noise() -> Iterator[Cell]:
    for pattern in NOISES:
        for strategy in MAIN[:3]:
            yield _of(FAIR, strategy, 2, 5.0, 10.0, pattern)


def _known() -> Iterator[Cell]:
    for each in PRIOR:
        yield replace(_of(FAIR, TERMS_KNOWN, *each), truths="inside")
    yield replace(_of(FAIR, "full", 2, 5.0, 100.0), truths="inside")


def _default() -> Iterator[Cell]:
    yield from _main()
    yield from _others()
    yield from (cell for cell in _noise() if cell.pattern != "uniform")
    yield from _known()


def _wide(quick: bool) -> Iterator[Cell]:
    for m in (2,) if quick else (2, 3, 4):
        for noise in (5.0,) if quick else (1.0, 2.0, 5.0, 10.0):
            for pattern in NOISES:
                for budget in (2.0, 10.0, 50.0) if quick else _WIDE_BUDGETS:
                    for strategy in ("design", *RIVALS):
                        yield Cell(FAIR, m, noise, pattern, budget, strategy)


def _quick() -> Iterator[Cell]:
    for strategy in ("design", "cpf", "gpr"):
        yield _of(FAIR, strategy, 2, 5.0, 10.0)
    yield replace(_of(FAIR, TERMS_KNOWN, 2, 5.0, 3.0), truths="inside")


def _relearn() -> list[Cell]:
    return [
        Cell(RELEARN, 2, 0.0, "measured", budget, strategy)
        for budget in _RELEARN_BUDGETS
        for strategy in ("design", "cpf", "gpr", "random")
    ] + [Cell(RELEARN, 2, 0.0, "measured", 100.0, "full")]


def _executed() -> list[Cell]:
    return [
        Cell(EXECUTED, 2, 5.0, "uniform", budget, strategy) for budget in _EXECUTED_BUDGETS for strategy in MAIN
    ] + [Cell(EXECUTED, 2, 5.0, "uniform", 100.0, "full")]
