"""Pictures of an evaluation's curves, as SVG."""

from __future__ import annotations

import io
from pathlib import Path

from buran.files import write_bytes
from buran_studies.evaluation.evaluation import Plot

# Okabe and Ito's palette: told apart by colour-blind eyes.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
_MARKERS = "osD^vP*X"


def draw(plot: Plot, path: Path) -> None:
    """Draw a plot."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(7.0, 4.4), layout="constrained")
    axes = canvas.add_subplot()
    for i, curve in enumerate(plot.curves):
        known = [k for k, y in enumerate(curve.y) if y is not None]
        axes.errorbar(
            [curve.x[k] for k in known],
            [float(curve.y[k] or 0.0) for k in known],
            yerr=None if curve.y_error is None else [curve.y_error[k] for k in known],
            label=curve.name,
            color=_COLOURS[i % len(_COLOURS)],
            marker=_MARKERS[i % len(_MARKERS)],
            linestyle="--" if curve.dashed else "-",
            capsize=2,
            markersize=4,
        )
    axes.set(title=plot.title, xlabel=plot.x_label, ylabel=plot.y_label)
    axes.set_xscale("log" if plot.log_x else "linear")
    axes.set_yscale("log" if plot.log_y else "linear")
    axes.grid(alpha=0.3)
    if plot.curves:
        axes.legend(fontsize="small")
    data = io.BytesIO()
    canvas.savefig(data, format="svg", metadata={"Date": None})
    write_bytes(path, data.getvalue())
