"""The results of a finished campaign as objects, for Python and notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from buran.campaign.layout import MODELS, REPORT, results_folder
from buran.files import JsonObject, read_json
from buran.instrumentation.filter_file import Filter, parse
from buran.modeling.pmnf.model_set import ModelSet, read_models
from buran.profiles.experiment import TABLE
from buran.profiles.experiment.jsonl import read_jsonl
from buran.profiles.experiment.table import Experiment
from buran.wording import table_html

_FILTER = "scorep.filter"


@dataclass(frozen=True)
class Results:
    """A folder of results; each part is read when it is first requested.

    Attributes
    ----------
    folder
        Such as ``results/NAME/latest``.
    """

    folder: Path

    @cached_property
    def experiment(self) -> Experiment:
        """Everything measured that models are made of."""
        return read_jsonl(self.folder / TABLE)

    @cached_property
    def models(self) -> Mapping[str, ModelSet]:
        """Models by metric."""
        return {models.metric: models for models in read_models(self.folder / MODELS)}

    @cached_property
    def filter(self) -> Filter:
        """Which functions are worth their hooks."""
        path = self.folder / _FILTER
        return parse(path.read_text(encoding="utf-8"), path)

    @cached_property
    def report(self) -> JsonObject:
        """What `buran report --json` prints."""
        return dict(read_json(self.folder / REPORT))

    def _repr_html_(self) -> str:
        rows = [(name, len(models.call_paths), models.unit) for name, models in self.models.items()]
        return table_html(f"Results of {self.report['campaign']}", ("metric", "call paths", "unit"), rows)


def open_results(path: Path) -> Results:
    """Return the results of a campaign, by its campaign file or a folder such as ``results/NAME/latest``.

    Raises
    ------
    UsageError
        There are none.
    """
    if path.is_dir() and not (path / REPORT).is_file() and (path / "latest").exists():
        path = path / "latest"
    return Results(results_folder(path))
