"""Results that finished campaigns left behind, found by their campaign file or their folder."""

from __future__ import annotations

from pathlib import Path

from buran.campaign.layout import Layout
from buran.campaign.yaml_document import read_yaml
from buran.errors import UsageError

REPORT, FINDINGS, TABLE, MODELS = "report.json", "findings.json", "experiment.jsonl", "models.json"
READ = (REPORT, FINDINGS, TABLE)
"""Files in a folder of results that other campaigns read."""


def results_folder(path: Path) -> Path:
    """Return a folder of results: itself, or that of the last finished run of a campaign file.

    Of the file only the name and the place of results count: the sources that it names may be gone.

    Raises
    ------
    UsageError
        There are no results.
    CampaignError
        The file is no YAML.
    """
    if not path.exists():
        hint = "name a campaign file, or a folder of results such as results/NAME/latest"
        raise UsageError("there is no campaign and no results", where=path, why="no such file or folder", hint=hint)
    if path.is_dir():
        folder, hint = path.resolve(), "name a folder such as results/NAME/latest, or a campaign file"
    else:
        data = read_yaml(path).data
        root = path.absolute().parent / str(data.get("results", "results")) / str(data.get("name", ""))
        folder, hint = Layout(root).latest.resolve(), f"buran run {path}"
    if not (folder / REPORT).is_file():
        raise UsageError("the campaign has no results yet", where=path, why=f"there is no {folder / REPORT}", hint=hint)
    return folder
