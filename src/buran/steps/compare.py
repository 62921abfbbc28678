"""Comparing the results of two campaigns: where they lie, and what is written beside the later one's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from buran.campaign.layout import Layout
from buran.campaign.load import load_campaign
from buran.compare.compare import LEVEL, SHARE, compare_sides
from buran.compare.condition import Broken
from buran.compare.difference import Comparison
from buran.compare.side import RUNTIME, Side
from buran.errors import FormatError, UsageError
from buran.experiment.jsonl import read_jsonl
from buran.files import read_json, write_json, write_text
from buran.model.model_set import SCHEMA as MODELS_SCHEMA
from buran.model.model_set import ModelSet, read_models
from buran.report.comparison import comparison_csv, comparison_plain, comparison_text
from buran.report.comparison_page import render_comparison_page
from buran.steps.session import Session

REPORT = "report.json"
TABLE = "experiment.jsonl"
NAME = "comparison"
_KEEP = "keep report.json of an earlier campaign, or its whole folder latest/, with which counts are compared exactly"


def results_folder(path: Path) -> Path:
    """Return the folder with the results of the last finished run of a campaign file.

    Raises
    ------
    UsageError
        There is none.
    CampaignError
        The file has mistakes.
    """
    layout = Layout(load_campaign(path).results_root)
    if not (layout.latest / REPORT).is_file():
        raise UsageError(
            "the campaign to compare with has no results yet",
            where=path,
            why=f"there is no {layout.latest / REPORT}",
            hint=f"buran run {path}",
        )
    return layout.latest.resolve()


def read_side(path: Path) -> Side:
    """Read what was kept of a campaign: a campaign file, a folder of results, report.json or models.json.

    Raises
    ------
    UsageError, FormatError
        It is none of these, or cannot be read.
    """
    if not path.exists():
        raise UsageError("there is nothing to compare with", where=path, why="no such file or folder", hint=_KEEP)
    if path.is_dir():
        return side_of_results(path, str(path))
    if path.suffix == ".json":
        return _side_of_json(path)
    folder = results_folder(path)
    return side_of_results(folder, str(path))


def side_of_results(folder: Path, name: str) -> Side:
    """Read a folder of results: report.json, and the measurements beside it for exact counts.

    Raises
    ------
    UsageError, FormatError
        It holds none.
    """
    path = folder / REPORT
    if not path.is_file():
        raise UsageError(
            "this folder holds no results of a campaign",
            where=folder,
            why=f"there is no {REPORT}",
            hint="name a folder such as results/NAME/latest, or a campaign file",
        )
    table = folder / TABLE
    counts = read_jsonl(table) if table.is_file() and table.stat().st_size else None
    return _side_of_report(path, read_json(path), name, counts)


def _side_of_json(path: Path) -> Side:
    data = read_json(path)
    if isinstance(data, Mapping) and data.get("schema") == MODELS_SCHEMA:
        models = {each.metric: each for each in read_models(path)}
        parameters = next((each.parameters for each in models.values()), ())
        return Side(str(path), parameters, {}, models)
    if isinstance(data, Mapping) and {"campaign", "models", "target"} <= data.keys():
        return _side_of_report(path, data, str(path), None)
    why = "page.json is what the page draws, without models" if path.name == "page.json" else None
    raise FormatError("these are no results to compare with", where=path, why=why, hint=_KEEP)


def _side_of_report(path: Path, data: Mapping[str, Any], name: str, counts: Any) -> Side:
    try:
        models = {metric: ModelSet.from_json(each) for metric, each in data["models"].items()}
        if data["runtime"]:
            models[RUNTIME] = ModelSet.from_json(data["runtime"])
        ratios = [each["time_ratio"] for each in _of_last_filter(data["overhead"]) if each["time_ratio"] is not None]
        return Side(
            f"{data['campaign']} ({name})",
            tuple(map(str, data["parameters"])),
            {str(key): float(value) for key, value in data["target"].items()},
            models,
            counts,
            {str(metric): tuple(paths) for metric, paths in data["unsteady"].items()},
            median(ratios) if ratios else None,
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        why = f"missing key {error}" if isinstance(error, KeyError) else str(error)
        raise FormatError("a report is damaged, or of another version", where=path, why=why, hint=_KEEP) from error


def _of_last_filter(overhead: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    last = max((each["filter_number"] for each in overhead), default=0)
    return [each for each in overhead if each["filter_number"] == last]


def compare_with(session: Session, other: Path, level: float = LEVEL, share: float = SHARE) -> Comparison:
    """Compare a finished campaign with an earlier one.

    Raises
    ------
    UsageError
        They cannot be compared, or are the same.
    """
    folder = session.layout.results(session.id)
    before = read_side(other)
    same = other.resolve() if other.suffix == ".json" or other.is_dir() else results_folder(other)
    if same in (folder.resolve(), (folder / REPORT).resolve(), (folder / "models.json").resolve()):
        others = sorted(each.name for each in folder.parent.iterdir() if each != folder and (each / REPORT).is_file())
        lie = f"earlier results of this file lie in {folder.parent}: {', '.join(others)}" if others else _KEEP
        raise UsageError("a campaign cannot be compared with itself", where=other, hint=lie)
    return compare_sides(before, side_of_results(folder, str(session.campaign.path)), level, share)


def write_comparison(folder: Path, comparison: Comparison, broken: Sequence[Broken] = ()) -> None:
    """Write a comparison beside a report: as text, JSON, CSV and as a page."""
    write_text(folder / f"{NAME}.txt", comparison_text(comparison, broken))
    write_json(folder / f"{NAME}.json", comparison_plain(comparison, broken))
    write_text(folder / f"{NAME}.csv", comparison_csv(comparison))
    write_text(folder / f"{NAME}.html", render_comparison_page(comparison, broken))
