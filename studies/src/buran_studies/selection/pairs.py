"""Strategies compared on the same functions with the same draws of noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from buran_studies.evaluation.evaluation import Figure, Kind, Table
from buran_studies.evaluation.statistics import mean_and_error
from buran_studies.selection.cells import FAIR, RELEARN, Cell

Entries = Sequence[Mapping[str, float]]
LIMIT = 5.0
_AGAINST = ("design", "cpf")
_BEYOND = 2.0  # standard errors: a difference beyond is more than chance


def differences(gathered: Mapping[Cell, Entries]) -> Iterator[tuple[Cell, Cell, float, float | None, int]]:
    """Yield pairs of cells that differ in the strategy alone: the second one is what the first is compared with.

    With each pair come the mean difference of hits within 5 %, in percent of the functions, its standard error and
    the number of functions. A function counts 1, 0 or -1, so that the difficulty of the functions does not scatter it.
    """
    for cell, entries in gathered.items():
        if cell.protocol == RELEARN:
            continue
        for name in _AGAINST:
            other = replace(cell, strategy=name)
            if cell.strategy == name or other not in gathered or (cell.strategy == "design" and name == "cpf"):
                continue
            both = min(len(entries), len(gathered[other]))
            own = np.array([entry["error"] <= LIMIT for entry in entries[:both]], dtype=np.float64)
            theirs = np.array([entry["error"] <= LIMIT for entry in gathered[other][:both]], dtype=np.float64)
            mean, error = mean_and_error(100 * (own - theirs))
            yield cell, other, mean, error, both


def pairs_table(gathered: Mapping[Cell, Entries], protocol_of: Mapping[Cell, str]) -> Table | None:
    """Return all paired differences; None if no two strategies played the same functions."""
    rows = tuple(
        (protocol_of[cell], cell.parameters, cell.noise, cell.budget, cell.strategy, other.strategy, mean, error, count)
        for cell, other, mean, error, count in differences(gathered)
    )
    header = ("protocol", "m", "noise %", "B %", "strategy", "against", "difference", "its error", "functions")
    return (
        Table("Share within 5 %, less that of another strategy on the same functions", header, rows) if rows else None
    )


def pair_figures(gathered: Mapping[Cell, Entries]) -> list[Figure]:
    """Return what has a goal: the process as the paper means it is not worse than cheapest first."""
    out = []
    for cell, other, mean, error, count in differences(gathered):
        if cell.strategy == "gpr" and other.strategy == "cpf" and cell.protocol == FAIR:
            name = f"gpr less cpf: {cell.name.removeprefix('gpr, ')}"
            goal = f"not below 0 by more than {_BEYOND:g} standard errors"
            out.append(Figure(name, mean, "% of functions", error, count, Kind.SIMULATED, goal))
    return out
