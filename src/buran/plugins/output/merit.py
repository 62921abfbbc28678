"""Figures of merit: from the output of runs to a table of the whole program, and to the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from buran.campaign.mistakes import listed
from buran.campaign.plan import Purpose
from buran.campaign.point import Point
from buran.features import ReportSection
from buran.modeling.pmnf.model_set import ModelSet, write_models
from buran.modeling.pmnf.text import format_function
from buran.plugins.output.check import figures_in, output_of
from buran.plugins.output.keys import figures_of
from buran.profiles.experiment import TABLE
from buran.profiles.experiment.jsonl import read_jsonl, write_jsonl
from buran.profiles.experiment.table import Experiment
from buran.profiles.metrics import metric_of
from buran.profiles.profile import CallTree
from buran.reporting.content import Reach, Report, reach_at, reach_text
from buran.reporting.html import table_section
from buran.reporting.tables import section
from buran.wording import named, word_of
from buran.workflow.collect import of_whole_program, only
from buran.workflow.history import OF_THE_PROGRAM, FinishedRun, History, in_store, run_times

FIGURES = "figures.json"
"""Models of figures, for ``buran predict``."""
_HEADER = ("figure", "point", "measured", "predicted")


@dataclass(frozen=True, eq=False)
class FigureOfMerit:
    """What a program prints, and would print at the target.

    Attributes
    ----------
    better
        ``higher``, ``lower``, or ``neither`` where nobody says.
    runs
        Those that have it, and all.
    at_target
        None without a model.
    tested
        Evaluation points with what was measured, in the median, and what is predicted there.
    """

    models: ModelSet
    better: str
    runs: tuple[int, int]
    at_target: Reach | None
    tested: Sequence[tuple[Mapping[str, float], float, Reach | None]]

    @property
    def function(self) -> str:
        """The model in words; empty without one."""
        model = self.models.models[0]
        return "" if model is None else format_function(model.function, self.models.parameters)

    @property
    def smape(self) -> float | None:
        """How far the model is from what was measured, in percent."""
        model = self.models.models[0]
        return None if model is None else model.quality.smape


def _printed(history: History, runs: Iterable[FinishedRun]) -> dict[str, dict[FinishedRun, float | str]]:
    """Return for each figure and run the number, or why there is none."""
    requested = figures_of(history.session.campaign.config)
    there = [run for run in in_store(runs) if run.mode in OF_THE_PROGRAM]
    if not requested or not there:
        return {}
    found = figures_in(tuple(keys.pattern for keys in requested.values()), tuple(map(output_of, there)))
    return {
        name: dict(zip(there, column, strict=True))
        for name, column in zip(requested, zip(*found, strict=True), strict=True)
    }


def _by_point(of_runs: Mapping[FinishedRun, float | str], purpose: Purpose) -> dict[Point, list[float]]:
    """Return the numbers of runs without hooks by point; elsewhere those with, corrected as run times are."""
    numbers = {run.folder: value for run, value in of_runs.items() if isinstance(value, float)}
    having = [run for run in of_runs if run.folder in numbers]
    return run_times(having, purpose, lambda run: numbers[run.folder], least=0.0)


def figure_table(history: History, runs: Sequence[FinishedRun], tree: CallTree | None) -> Experiment | None:
    """Return the figures of the whole program; None where no run has one.

    Parameters
    ----------
    tree
        Tree of the other metrics: the whole program is its root.
    """
    printed = {name: _by_point(of_runs, Purpose.MODEL) for name, of_runs in _printed(history, runs).items()}
    printed = {name: by_point for name, by_point in printed.items() if by_point}
    if not printed:
        return None
    units = {name: figures_of(history.session.campaign.config)[name].unit for name in printed}
    return of_whole_program(printed, units, history.session.campaign.parameters, tree)


def figure_notes(history: History) -> list[str]:
    """Name the runs that do not print a figure."""
    notes = []
    for name, of_runs in _printed(history, history.runs).items():
        missing = {run: why for run, why in of_runs.items() if isinstance(why, str)}
        if not missing:
            continue
        points = listed(list(dict.fromkeys(f"({named(run.point)})" for run in missing)), 8)
        most = f"{len(missing)} of {len(of_runs)} runs do not print the figure {name}, and count for everything else"
        what = most if len(missing) < len(of_runs) else f"No run prints the figure {name}"
        at = f" at {points}" if len(missing) < len(of_runs) else ""
        notes.append(f"{what}{at}. The first: {next(iter(missing.values()))}")
    return notes


def figures_of_campaign(history: History, report: Report) -> tuple[FigureOfMerit, ...] | None:
    """Return the figures with their models, at the target and at evaluation points; None without any."""
    campaign = history.session.campaign
    requested, figures = figures_of(campaign.config), []
    for name, of_runs in _printed(history, history.runs).items():
        if (models := report.models.get(name)) is None:
            continue
        numbers = sum(isinstance(value, float) for value in of_runs.values())
        tested = {  # models are made at the target's choices
            at: found
            for at, found in _by_point(of_runs, Purpose.EVALUATION).items()
            if all(at[name] == campaign.target[name] for name in campaign.choices)
        }
        figures.append(
            FigureOfMerit(
                models,
                requested[name].better,
                (numbers, len(of_runs)),
                reach_at(models, report.target),
                tuple((dict(at), median(found), reach_at(models, at)) for at, found in sorted(tested.items())),
            )
        )
    return tuple(figures) or None


def figures_plain(figures: Sequence[FigureOfMerit]) -> list[dict[str, Any]]:
    """Return figures as plain data."""
    return [
        {
            "name": figure.models.metric,
            "unit": figure.models.unit,
            "better": figure.better,
            "runs": figure.runs,
            "model": figure.function,
            "smape": figure.smape,
            "at_target": figure.at_target,
            "tested": [
                {"point": point, "measured": measured, "predicted": predicted}
                for point, measured, predicted in figure.tested
            ],
        }
        for figure in figures
    ]


def _rows(figures: Sequence[FigureOfMerit], target: Mapping[str, float]) -> tuple[list[list[str]], set[int]]:
    """Return cells as `_HEADER` says, and which rows are for the target."""
    rows, at_target = [], set[int]()
    for figure in figures:
        name = metric_of(figure.models.metric).heading + (f" ({figure.models.unit})" if figure.models.unit else "")
        for point, measured, predicted in figure.tested:
            rows.append([name, f"{named(point)}, evaluation", f"{measured:.4g}", reach_text(predicted)])
        at_target.add(len(rows))
        rows.append([name, f"{named(target)}, target", "–", reach_text(figure.at_target)])
    return rows, at_target


def _sentences(figures: Sequence[FigureOfMerit]) -> list[str]:
    said = []
    for figure in figures:
        known, runs = figure.runs
        quality = f"; SMAPE {figure.smape:.2g} %" if figure.smape is not None else ""
        better = f"; {figure.better} is better" if figure.better != "neither" else ""
        count = f"{runs} runs" if known == runs else f"{known} of {runs} runs"
        heading = metric_of(figure.models.metric).heading
        said.append(f"{heading}: {figure.function or 'no model'}{quality}{better}; printed by {count}.")
    return said


def figures_text(figures: Sequence[FigureOfMerit], target: Mapping[str, float]) -> str:
    """Return the figures as plain text."""
    return "\n".join([section("Figures of merit", _HEADER, _rows(figures, target)[0]), "", *_sentences(figures)])


def figures_page(figures: Sequence[FigureOfMerit], target: Mapping[str, float]) -> str:
    """Return the figures as HTML."""
    rows, at_target = _rows(figures, target)
    return table_section("figures", "Figures of merit", _sentences(figures), _HEADER, rows, at_target)


def write_figures(figures: Sequence[FigureOfMerit], folder: Path) -> None:
    """Write the models for `buran predict`, and what was measured, at the target's words, for Extra-P."""
    sets = [figure.models for figure in figures]
    write_models(folder / FIGURES, sets)
    (folder / "extrap").mkdir(exist_ok=True)
    table = only(read_jsonl(folder / TABLE), [of.metric for of in sets])
    numbers = [position for position, value in enumerate(table.points[0].tolist()) if word_of(value) is None]
    table = replace(
        table, parameters=tuple(table.parameters[position] for position in numbers), points=table.points[:, numbers]
    )
    write_jsonl(table, folder / "extrap" / "figures.jsonl")


SECTION = ReportSection(
    "figures",
    "Figures of merit",
    lambda history, report, _: figures_of_campaign(history, report),
    lambda figures, report: figures_text(figures, report.target),
    lambda figures, report: figures_page(figures, report.target),
    plain=lambda figures: {"figures": None if figures is None else figures_plain(figures)},
    write=write_figures,
)
