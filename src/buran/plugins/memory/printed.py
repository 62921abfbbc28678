"""Printing what a campaign's program and its call paths take on another machine."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from buran.cli.terminal import table
from buran.errors import Exit, UsageError, check_coordinates
from buran.files import finite_or_none

if TYPE_CHECKING:
    from buran.plugins.memory.campaign import OtherMachine
    from buran.plugins.memory.machine_file import MachineFile

PROGRAM, STARTUP = "whole program", "start-up and shutdown"
_MOST_ROWS = 20
_Row = dict[str, Any]  # by the columns of the table
_TIMES = ("predicted", "lower", "upper", "here")


def predict(arguments: argparse.Namespace, points: Sequence[Mapping[str, float | str]]) -> int:
    """Print it for these points; return the exit code."""
    from buran.plugins.memory.campaign import predict_elsewhere
    from buran.plugins.memory.machine_file import MachineFile
    from buran.workflow.session import open_session

    there = MachineFile.read(arguments.machine)
    session = open_session(arguments.model, base_models=False)
    if not points:
        raise UsageError("there are no points to predict", hint="give --at P=V,... or a CSV file")
    for point in points:
        check_coordinates(point, session.campaign.parameters)
    numbers = [{name: value for name, value in point.items() if not isinstance(value, str)} for point in points]
    if numbers != list(points):
        raise UsageError("the values of parameters are numbers", why="some are not")
    found = predict_elsewhere(session, there, numbers, arguments.level)
    rows = _rows(found)
    if arguments.json:
        print(json.dumps(_plain(found, rows), indent=2))
    elif arguments.csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows([list(rows[0]), *(row.values() for row in rows)])
    else:
        _print(found, rows, arguments.level)
    return int(Exit.DONE)


def _rows(found: OtherMachine) -> list[_Row]:
    """Return a row for each point and call path, that of the program first; times in seconds."""
    from buran.profiles.startup import is_startup_or_shutdown

    names = (*found.call_paths, STARTUP)
    kinds = (*found.kinds, "kept")
    shown = np.flatnonzero(~np.append(is_startup_or_shutdown(found.call_paths), False)).tolist()
    out = []
    for position, point in enumerate(found.points.tolist()):
        at = dict(zip(found.parameters, point, strict=True))
        seconds = np.vstack([found.predicted, found.lower, found.upper, found.measured_at_home, *found.misses])
        seconds = seconds.reshape(-1, *found.predicted.shape)[:, :, position]
        program = np.append(found.program[:, position], found.misses[:, :, position].sum(axis=1))
        keys = [*_TIMES, *(f"misses of level {level}" for level in range(1, len(found.misses) + 1))]
        numbers = [(PROGRAM, "", program), *((names[row], kinds[row], seconds[:, row]) for row in shown)]
        for name, kind, values in numbers:
            times = dict(zip(keys, map(finite_or_none, values.tolist()), strict=True))
            out.append({**at, "call path": name, "made of": kind, **times})
    return out


def _plain(found: OtherMachine, rows: Sequence[_Row]) -> dict[str, Any]:
    def machine(file: MachineFile) -> dict[str, Any]:
        return {"host": file.host, "cpu": file.cpu, "date": file.date}

    return {
        "metric": "run time",
        "unit": "s",
        "here": machine(found.home),
        "there": machine(found.there),
        "same": found.same,
        "speed": {"ratio": found.speed.middle, "kinds": dict(found.speed.kinds), "memory": found.speed.memory},
        "notes": list(found.notes),
        "predictions": rows,
        "half_width": {name: [finite_or_none(x) for x in reach.tolist()] for name, reach in found.reach.items()},
    }


def _print(found: OtherMachine, rows: Sequence[_Row], level: float) -> None:
    from buran.reporting.tables import briefs

    home, there = (f"{machine.host} ({machine.cpu})" for machine in (found.home, found.there))
    print(f"run time in s on {there}, intervals of {100 * level:g} %; measured on {home}")
    programs = [row for row in rows if row["call path"] == PROGRAM]
    header = [key for key in rows[0] if key not in ("call path", "made of")]
    print(table(header, [[_cell(row[key]) for key in header] for row in programs]))
    last = dict(zip(found.parameters, found.points[-1].tolist(), strict=True))
    paths = [row for row in rows if row["call path"] != PROGRAM and all(row[name] == last[name] for name in last)]
    paths.sort(key=lambda row: -(row["predicted"] or 0.0))
    parts = ["call path", "made of", *header[len(found.parameters) :]]
    names = briefs([row["call path"] for row in paths])
    cells = [[name, *(_cell(row[key]) for key in parts[1:])] for name, row in zip(names, paths, strict=True)]
    print(f"\nof it at {', '.join(f'{name} = {value:g}' for name, value in last.items())}:")
    print(table(parts, cells[:_MOST_ROWS]))
    if len(cells) > _MOST_ROWS:
        print(f"and {len(cells) - _MOST_ROWS} more call paths, see --csv")
    print()
    for line in _uncertainties(found):
        print(line)


def _uncertainties(found: OtherMachine) -> list[str]:
    """Say what the prediction rests on, and what makes its interval wide at the last point."""
    kinds = ", ".join(f"{kind} {ratio:.2g}" for kind, ratio in found.speed.kinds.items())
    out = [
        f"the same code takes {found.speed.middle:.3g} times as long there ({kinds}); memory {found.speed.memory:.3g}"
    ]
    whole = found.program[0, -1]
    if not found.same and whole > 0:
        wide = ", ".join(f"{name} {100 * reach[-1] / whole:.2g} %" for name, reach in found.reach.items())
        out.append(f"half of the interval's width at the last point, over the prediction: {wide}")
    shares = {}
    for kind, text in (("kept", "MPI, start-up and shutdown are taken as here"), ("speed alone", "not counted")):
        some = [position == kind for position in (*found.kinds, "kept")]
        shares[text] = found.predicted[np.array(some), -1].sum() / whole if whole > 0 else 0.0
    out += [f"{100 * share:.2g} % of the prediction: {text}" for text, share in shares.items() if share > 0]
    return [*out, *(f"note: {note}" for note in found.notes)]


def _cell(value: Any) -> str:
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
