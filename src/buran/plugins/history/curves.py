"""Predictions over versions: as a line of text, and for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buran.plugins.history.entry import PROGRAM, RUN_TIME
from buran.report.files import asset, environment
from buran.report.plain import name_of

_MOST, _PERCENT = 5, 1
_BARS = "▁▂▃▄▅▆▇█"
_WIDTH, _HEIGHT = 640, 120  # of a drawing


@dataclass(frozen=True)
class Curve:
    """A prediction over versions.

    Attributes
    ----------
    growth
        Growth classes, each once, in their order.
    values
        The oldest first; None where there is none, or one for another target.
    """

    title: str
    unit: str
    growth: str
    values: tuple[float | None, ...]

    @property
    def last(self) -> float:
        """The newest one."""
        return next(value for value in reversed(self.values) if value is not None)

    @property
    def dots(self) -> list[tuple[float, float, float, int]]:
        """Where the values are drawn, with these and their numbers."""
        most, step = max(value or 0.0 for value in self.values) or 1.0, _WIDTH / max(len(self.values) - 1, 1)
        return [
            (round(step * k, 1), round(_HEIGHT * (1 - value / most), 1), value, k)
            for k, value in enumerate(self.values)
            if value is not None
        ]

    @property
    def sparkline(self) -> str:
        """A bar for each value, from 0 on."""
        most = max(value or 0.0 for value in self.values) or 1.0
        bars = (" " if value is None else _BARS[round((len(_BARS) - 1) * value / most)] for value in self.values)
        return "".join(bars)


def curves_of(entries: Sequence[Mapping[str, Any]]) -> list[Curve]:
    """Return a curve for the program, and for the largest call paths of each metric at the newest target."""
    newest, curves = entries[-1], []
    comparable = [each["predicted"] if each["target"] == newest["target"] else {} for each in entries]
    for metric, of_metric in newest["predicted"].items():
        least = sum(value for value, _ in of_metric.values()) * _PERCENT / 100
        for path in sorted(of_metric, key=lambda path: -of_metric[path][0])[:_MOST]:
            if of_metric[path][0] < least:
                break
            found = [each.get(metric, {}).get(path, (None, None)) for each in comparable]
            growth = " -> ".join(dict.fromkeys(growth for _, growth in found if growth is not None))
            title = RUN_TIME if path == PROGRAM else f"{metric}: {name_of(path)}"
            values = tuple(value for value, _ in found)
            curves.append(Curve(title, newest["units"][metric], growth, values))
    return curves


def page_of(entries: Sequence[Mapping[str, Any]], curves: Sequence[Curve]) -> str:
    """Return the page."""
    template = environment(Path(__file__).parent).get_template("history.html.j2")
    return template.render(entries=entries, newest=entries[-1], curves=curves, style=asset("report.css"))
