"""Models as text, models file, LaTeX and Python."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from buran.cli.terminal import table
from buran.files import indented
from buran.modeling.pmnf import ModelSet, format_function, models_to_json
from buran.modeling.pmnf.model_set import at_the_end
from buran.reporting.plain import brief
from buran.wording import distinct, shown_value

_LONGEST = 64  # characters of a name in a table


def text(sets: Mapping[str, ModelSet], at: Mapping[str, float] | None = None, level: float = 0.9) -> str:
    """Return one table for each metric, the call path with the largest value at the point first.

    Without a point, the measured one with the largest total counts.
    """
    blocks = []
    for models in sets.values():
        order, shares = _by_share(models, at)
        paths = [models.call_paths[i] for i in order]
        short = [path if len(path) <= _LONGEST else brief(path, _LONGEST) for path in paths]
        names = dict(zip(order, distinct(short, paths, _LONGEST), strict=True))
        predictions = _predictions(models, at, level) if at else []
        rows = []
        for i in order:
            model = models.models[i]
            last = [f"{value:.4g}" for value in predictions[i]] if predictions else []
            if model is None:
                rows.append((names[i], "no value", "", *([""] * len(last)), ""))
                continue
            function = format_function(model.function, models.parameters)
            share = f"{100 * shares[i]:.1f} %"
            rows.append((names[i], function, f"{model.quality.smape:.2f}", *last, share))
        unit = f" in {models.unit}" if models.unit else ""
        title = f"{models.metric}{unit} ({models.aggregate} over ranks, {models.repetition} of repetitions)"
        extra = (("prediction", f"{100 * level:g} % from", "to") if at else ()) if order else ()
        header = ("call path", "model", "SMAPE %", *extra, "share")
        if at:
            title += " at " + ", ".join(f"{name} = {shown_value(value)}" for name, value in at.items())
        blocks.append(title + "\n" + table(header, rows, right=tuple(range(2, len(header)))))
        blocks += [f"note: {sentence}" for sentence in at_the_end([models])]
    return "\n\n".join(blocks)


def _predictions(models: ModelSet, at: Mapping[str, float], level: float) -> list[tuple[float, float, float]]:
    """Return prediction and interval of each call path."""
    point = np.array([[at[name] for name in models.parameters]])
    lower, upper = models.predict_interval(point, level)
    return list(zip(models.predict(point)[:, 0].tolist(), lower[:, 0].tolist(), upper[:, 0].tolist(), strict=True))


def _by_share(models: ModelSet, at: Mapping[str, float] | None = None) -> tuple[list[int], list[float]]:
    """Order call paths by their predicted share at a point; the measured point with the largest total by default."""
    if not models.call_paths or (at is None and not models.points):
        return [], []
    if at is not None:
        values = models.predict(np.array([[at[name] for name in models.parameters]]))[:, 0]
    else:
        everywhere = models.predict(np.array(models.points))
        values = everywhere[:, int(np.argmax(np.maximum(np.nan_to_num(everywhere), 0.0).sum(axis=0)))]
    values = np.maximum(np.nan_to_num(values), 0.0)
    return np.argsort(-values, kind="stable").tolist(), (values / (values.sum() or 1.0)).tolist()


def json(sets: Mapping[str, ModelSet], at: Mapping[str, float] | None = None, level: float = 0.9) -> str:
    """Return a models file; with a point, it holds the predictions as well."""
    data = models_to_json(tuple(sets.values()))
    if at is not None:
        predictions = {}
        for models in sets.values():
            order, shares = _by_share(models, at)
            values = _predictions(models, at, level)
            predictions[models.metric] = [
                {
                    "call_path": models.call_paths[i],
                    **{
                        key: value if math.isfinite(value) else None
                        for key, value in zip(("value", "lower", "upper"), values[i], strict=True)
                    },
                    "share": shares[i],
                }
                for i in order
            ]
        data["predictions"] = {"at": dict(at), "level": level, "metrics": predictions}
    return indented(data, 4)
