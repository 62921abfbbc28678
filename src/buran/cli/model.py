"""``buran model``: models of measurements."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from buran.model import ModelSet

HELP = "fit performance models to measurements, or show those of a models file"
_FORMATS = ("text", "json", "latex", "python")
_AGGREGATES = ("mean", "median", "min", "max", "sum")
_REPETITIONS = ("median", "mean", "min", "max")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "input",
        metavar="INPUT",
        type=Path,
        help="measurements in any format `buran convert` reads, or a models file",
    )
    parser.add_argument("--metric", metavar="M", action="append", help="metric to model (repeatable; default: all)")
    parser.add_argument(
        "--aggregate", choices=_AGGREGATES, default="mean", help="over ranks and threads (default: mean)"
    )
    parser.add_argument(
        "--repetition", choices=_REPETITIONS, default="median", help="over repetitions (default: median)"
    )
    parser.add_argument("--space", choices=("full", "extrap"), default="full", help="exponents to try (default: full)")
    parser.add_argument(
        "--negative",
        choices=("never", "always"),
        default="always",
        help="whether negative powers compete, as strong scaling needs them (default: always)",
    )
    parser.add_argument("--format", choices=_FORMATS, default="text", help="what to write (default: text)")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write there instead of to the terminal")
    parser.add_argument("--json", action="store_true", help="same as --format json")


def run(arguments: argparse.Namespace) -> int:
    """Fit or read models and write them."""
    from buran.errors import Exit
    from buran.files import write_text

    style = "json" if arguments.json else arguments.format
    sets = _models(arguments)
    text = _RENDER[style](sets)
    if arguments.output is None:
        print(text)
    else:
        write_text(arguments.output, text + "\n")
    return int(Exit.DONE)


def _models(arguments: argparse.Namespace) -> dict[str, ModelSet]:
    from buran.errors import UsageError
    from buran.experiment.modelling import model_experiment
    from buran.model import named_space, read_models

    if not _is_models_file(arguments.input):
        from buran.experiment.read import read_experiment

        experiment = read_experiment(arguments.input)
        space = named_space(arguments.space, arguments.negative)
        return model_experiment(experiment, arguments.metric, arguments.aggregate, arguments.repetition, space)
    sets = {own.metric: own for own in read_models(arguments.input)}
    wanted = arguments.metric or list(sets)
    for name in wanted:
        if name not in sets:
            raise UsageError(
                f"the models file has no metric {name!r}",
                where=arguments.input,
                hint=f"choose from {', '.join(sets) or 'none: it has no metrics'}",
            )
    return {name: sets[name] for name in wanted}


def _is_models_file(path: Path) -> bool:
    from buran.model.model_set import SCHEMA

    if not path.is_file():
        return False
    with path.open("rb") as file:
        return SCHEMA.encode() in file.read(200)


def render_text(sets: Mapping[str, ModelSet]) -> str:
    """Return one table for each metric, the call path with the largest value at the largest point first."""
    from buran.cli.terminal import table
    from buran.model import format_function

    blocks = []
    for own in sets.values():
        order, shares = _by_share(own)
        rows = []
        for i in order:
            model = own.models[i]
            share = f"{100 * shares[i]:.1f} %"
            if model is None:
                rows.append((own.call_paths[i], "no value", "", ""))
                continue
            rows.append(
                (
                    own.call_paths[i],
                    format_function(model.function, own.parameters),
                    f"{model.quality.smape:.2f}",
                    share,
                )
            )
        unit = f" in {own.unit}" if own.unit else ""
        title = f"{own.metric}{unit} ({own.aggregate} over locations, {own.repetition} of repetitions)"
        blocks.append(title + "\n" + table(("call path", "model", "SMAPE %", "share"), rows, right=(2, 3)))
    return "\n\n".join(blocks)


def _by_share(own: ModelSet) -> tuple[list[int], list[float]]:
    """Order call paths by their predicted share at the measured point with the largest total."""
    import numpy as np

    if not own.points or not own.call_paths:
        return [], []
    values = np.maximum(np.nan_to_num(own.predict(np.array(own.points))), 0.0)
    totals = values.sum(axis=0)
    largest = values[:, int(np.argmax(totals))]
    total = float(totals.max())
    order = np.argsort(-largest, kind="stable").tolist()
    return order, (largest / total if total > 0 else largest).tolist()


def render_json(sets: Mapping[str, ModelSet]) -> str:
    """Return a models file."""
    from buran.model import models_to_json

    return json.dumps(models_to_json(tuple(sets.values())), indent=2, allow_nan=False)


def render_latex(sets: Mapping[str, ModelSet]) -> str:
    """Return one table for each metric."""
    from buran.model import format_function

    lines = []
    for own in sets.values():
        lines += [
            rf"% {own.metric}",
            r"\begin{tabular}{lrr}",
            r"call path & model & SMAPE (\%) \\",
            r"\hline",
        ]
        for i in _by_share(own)[0]:
            model = own.models[i]
            if model is not None:
                function = format_function(model.function, own.parameters, "latex")
                path = _latex_text(own.call_paths[i])
                lines.append(rf"{path} & ${function}$ & {model.quality.smape:.2f} \\")
        lines.append(r"\end{tabular}")
    return "\n".join(lines)


def _latex_text(text: str) -> str:
    special = {
        "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
        "<": r"\textless{}", ">": r"\textgreater{}", **{c: rf"\{c}" for c in "&%$#_{}"},
    }  # fmt: skip
    return "".join(special.get(char, char) for char in text.replace("->", "\0")).replace("\0", r" $\to$ ")


def render_python(sets: Mapping[str, ModelSet]) -> str:
    """Return a Python module whose ``models`` maps metric and call path to a function."""
    from buran.model import format_function, python_names

    lines = ['"""Performance models; made by buran."""', "", "from numpy import log2", "", "models = {"]
    for own in sets.values():
        names = ", ".join(python_names(own.parameters))
        lines.append(f"    {own.metric!r}: {{")
        for i in _by_share(own)[0]:
            model = own.models[i]
            if model is not None:
                function = format_function(model.function, own.parameters, "python")
                lines.append(f"        {own.call_paths[i]!r}: lambda {names}: {function},")
        lines.append("    },")
    lines.append("}")
    return "\n".join(lines)


_RENDER = {"text": render_text, "json": render_json, "latex": render_latex, "python": render_python}
