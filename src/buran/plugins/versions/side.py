"""What a comparison needs to know of a campaign."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from buran.campaign.layout import REPORT, results_folder
from buran.errors import FormatError
from buran.files import JsonObject, read_json
from buran.modeling.pmnf.model_set import SCHEMA as MODELS_SCHEMA
from buran.modeling.pmnf.model_set import ModelSet, read_models
from buran.profiles.experiment import TABLE
from buran.profiles.experiment.jsonl import read_jsonl
from buran.profiles.experiment.table import Experiment
from buran.wording import Category

RUNTIME = "runtime"
"""Metric of the whole program, not instrumented."""


@dataclass(frozen=True, eq=False)
class Side:
    """One of two campaigns.

    Attributes
    ----------
    name
        What readers know it by.
    parameters
        Names; empty where there is no model that would tell.
    target
        Point it is extrapolated to; empty where its file does not say.
    models
        By metric; `RUNTIME` is that of the whole program.
    counts
        Everything it measured, from which counts are compared; None where only models are known.
    unsteady
        Call paths whose counts depend on the run, by metric.
    overhead
        CPU time with hooks over CPU time without, under the last filter; None where it is not known.
    names
        Call paths of `counts`, where they are called otherwise than there; see `renamed`.
    simulated_on
        The simulated machine that its times are of; empty where they were measured.
    better
        ``higher`` or ``lower``, by figure of merit.
    """

    name: str
    parameters: tuple[str, ...]
    target: Mapping[str, float]
    models: Mapping[str, ModelSet]
    counts: Experiment | None = None
    unsteady: Mapping[str, Sequence[str]] = field(default_factory=dict)
    overhead: float | None = None
    names: tuple[str, ...] | None = None
    simulated_on: str = ""
    better: Mapping[str, str] = field(default_factory=dict)

    @property
    def counted(self) -> tuple[str, ...]:
        """Call paths of `counts`."""
        if self.names is not None or self.counts is None:
            return self.names or ()
        return tuple(self.counts.tree.names)

    def renamed(self, names: Mapping[str, str]) -> Side:
        """Return the same campaign with other names for some call paths."""
        if not names:
            return self
        return replace(
            self,
            models={
                metric: replace(models, call_paths=tuple(names.get(path, path) for path in models.call_paths))
                for metric, models in self.models.items()
            },
            unsteady={metric: [names.get(path, path) for path in paths] for metric, paths in self.unsteady.items()},
            names=tuple(names.get(path, path) for path in self.counted),
        )


KEEP = "keep report.json of an earlier campaign, or its whole folder latest/, with which counts are compared exactly"


def read_side(path: Path) -> Side:
    """Read what was kept of a campaign: a campaign file, a folder of results, report.json or models.json.

    Raises
    ------
    UsageError, FormatError
        It is none of these, or cannot be read.
    """
    return _side_of_json(path) if path.suffix == ".json" else side_of_results(results_folder(path), str(path))


def side_of_results(folder: Path, name: str) -> Side:
    """Read a folder of results: report.json, and the measurements next to it for exact counts."""
    return side_of_report(read_json(folder / REPORT), folder / REPORT, name, counts_in(folder))


def counts_in(folder: Path) -> Experiment | None:
    """Read the measurements in a folder of results; None without any."""
    table = folder / TABLE
    return read_jsonl(table) if table.is_file() and table.stat().st_size else None


def _side_of_json(path: Path) -> Side:
    data = read_json(path)
    if isinstance(data, Mapping) and data.get("schema") == MODELS_SCHEMA:
        models = {of_metric.metric: of_metric for of_metric in read_models(path)}
        parameters = next((of_metric.parameters for of_metric in models.values()), ())
        return Side(str(path), parameters, {}, models)
    if isinstance(data, Mapping) and {"campaign", "models", "target"} <= data.keys():
        return side_of_report(data, path, str(path), None)
    why = "page.json is what the page draws, without models" if path.name == "page.json" else None
    raise FormatError("these are no results to compare with", where=path, why=why, hint=KEEP)


def side_of_report(data: JsonObject, path: Path, name: str, counts: Experiment | None) -> Side:
    """Return what a comparison needs of a report, which is or will be at a path, and of measurements."""
    try:
        for word in data.get("words", ()):
            Category(word)  # from now on its number is shown as the word
        models = {metric: ModelSet.from_json(content) for metric, content in data["models"].items()}
        if data["runtime"]:
            models[RUNTIME] = ModelSet.from_json(data["runtime"])
        by_filter = [(each["filter_number"], each["time_ratio"]) for each in data["overhead"]]
        last = max((number for number, _ in by_filter), default=0)
        ratios = [ratio for number, ratio in by_filter if number == last and ratio is not None]
        return Side(
            f"{data['campaign']} ({name})",
            tuple(map(str, data["parameters"])),
            {str(key): float(value) for key, value in data["target"].items()},
            models,
            counts,
            {str(metric): tuple(paths) for metric, paths in data["unsteady"].items()},
            median(ratios) if ratios else None,
            simulated_on=str(data.get("simulated_on", "")),
            better={each["name"]: each["better"] for each in data.get("figures") or () if each["better"] != "neither"},
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        why = f"missing key {error}" if isinstance(error, KeyError) else str(error)
        raise FormatError("a report is damaged, or of another version", where=path, why=why, hint=KEEP) from error
