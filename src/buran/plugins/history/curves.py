"""Predictions over versions: as a line of text, and for the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from buran.plugins.history.entry import PROGRAM, RUN_TIME, Version
from buran.reporting.html import asset, environment
from buran.reporting.tables import name_of

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
    def last(self) -> str:
        """The newest one."""
        return "none" if self.values[-1] is None else f"{self.values[-1]:.4g} {self.unit}"

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


def curves_of(entries: Sequence[Version]) -> list[Curve]:
    """Return a curve for the program, and for the call paths of each metric that were largest at the newest target."""
    newest, curves = entries[-1], []
    comparable = [each["predicted"] if each["target"] == newest["target"] else {} for each in entries]
    for metric, unit in newest["units"].items():
        pairs = [(path, value) for each in comparable for path, (value, _) in each.get(metric, {}).items()]
        most = dict(sorted(pairs, key=lambda pair: pair[1]))  # of a call path the last, which is its largest
        for path in sorted(most, key=lambda path: -most[path])[:_MOST]:
            if most[path] * 100 < _PERCENT * max(most.values()):
                break
            found = [each.get(metric, {}).get(path, (None, None)) for each in comparable]
            growth = " -> ".join(dict.fromkeys(growth for _, growth in found if growth is not None))
            title = RUN_TIME if path == PROGRAM else f"{metric}: {name_of(path)}"
            curves.append(Curve(title, unit, growth, tuple(value for value, _ in found)))
    return curves


def page_of(entries: Sequence[Version], curves: Sequence[Curve]) -> str:
    """Return the page."""
    template = environment(Path(__file__).parent).get_template("history.html.j2")
    return template.render(entries=entries, newest=entries[-1], curves=curves, style=asset("report.css"))
