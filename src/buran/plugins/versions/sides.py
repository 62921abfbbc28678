"""Reading what a comparison needs of a finished campaign, from its results or from what was kept of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from buran.campaign.results import REPORT, results_folder
from buran.errors import FormatError
from buran.files import JsonObject, read_json
from buran.modeling.pmnf.model_set import SCHEMA as MODELS_SCHEMA
from buran.modeling.pmnf.model_set import ModelSet, read_models
from buran.plugins.versions.side import RUNTIME, Side
from buran.profiles.experiment import TABLE
from buran.profiles.experiment.jsonl import read_jsonl
from buran.wording import Category

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
    return side_of_report(read_json(folder / REPORT), folder, name)


def side_of_report(report: JsonObject, folder: Path, name: str) -> Side:
    """Return what a comparison needs of a report that is at hand, and of the measurements in its folder."""
    table = folder / TABLE
    counts = read_jsonl(table) if table.is_file() and table.stat().st_size else None
    return _side_of_report(folder / REPORT, report, name, counts)


def _side_of_json(path: Path) -> Side:
    data = read_json(path)
    if isinstance(data, Mapping) and data.get("schema") == MODELS_SCHEMA:
        models = {of_metric.metric: of_metric for of_metric in read_models(path)}
        parameters = next((of_metric.parameters for of_metric in models.values()), ())
        return Side(str(path), parameters, {}, models)
    if isinstance(data, Mapping) and {"campaign", "models", "target"} <= data.keys():
        return _side_of_report(path, data, str(path), None)
    why = "page.json is what the page draws, without models" if path.name == "page.json" else None
    raise FormatError("these are no results to compare with", where=path, why=why, hint=KEEP)


def _side_of_report(path: Path, data: JsonObject, name: str, counts: Any) -> Side:
    try:
        for word in data.get("words", ()):
            Category(word)  # from now on its number is shown as the word
        models = {metric: ModelSet.from_json(content) for metric, content in data["models"].items()}
        if data["runtime"]:
            models[RUNTIME] = ModelSet.from_json(data["runtime"])
        ratios = [entry["time_ratio"] for entry in _of_last_filter(data["overhead"]) if entry["time_ratio"] is not None]
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


def _of_last_filter(overhead: Sequence[JsonObject]) -> list[JsonObject]:
    last = max((entry["filter_number"] for entry in overhead), default=0)
    return [entry for entry in overhead if entry["filter_number"] == last]
