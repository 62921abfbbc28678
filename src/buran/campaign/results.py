"""Results that finished campaigns left behind, found by their campaign file or their folder."""

from __future__ import annotations

import contextlib
from pathlib import Path

from buran.campaign.document import below, read_campaign_file
from buran.campaign.layout import Layout
from buran.campaign.yaml_document import YamlDocument
from buran.errors import UsageError
from buran.profiles.experiment import TABLE

REPORT, FINDINGS, MODELS = "report.json", "findings.json", "models.json"
_DEEPEST = 6  # folders from a report up to the campaign file, as in a/b/NAME/reports/ID


def campaign_file(path: Path) -> Path:
    """Return a campaign file: itself, or that whose results a folder holds.

    Raises
    ------
    UsageError
        No campaign file beside the folder has its results there.
    """
    if not path.is_dir():
        if path.name.startswith("report.") and (path.parent / REPORT).is_file():
            hint = f"name the campaign file, or this folder: {path.parent}"
            raise UsageError("this file belongs to a report", where=path, why="it is no campaign file", hint=hint)
        return path
    folder = path.resolve()
    folders = (folder, *folder.parents)[:_DEEPEST]
    for other in folders[1:]:
        for file in sorted((*other.glob("*.yaml"), *other.glob("*.yml"))):
            with contextlib.suppress(UsageError, AttributeError):  # other files may lie there
                if root_of(read_campaign_file(file)).resolve() in folders:
                    return file
    own = path / "campaign.yaml"
    if own.is_file() and not (path / REPORT).is_file():
        raise UsageError("this is no folder of results", where=path, hint=f"name the campaign file: {own}")
    kept = next((each for each in (folder / "latest", folder) if (each / REPORT).is_file()), None)
    raise UsageError(
        "no campaign is known by this folder",
        where=path,
        why="no campaign file in the folders above has its results there",
        hint="name the campaign file"
        if kept is None
        else f"name the campaign file; or read what was kept: buran report {kept}, buran filter --from {kept / TABLE}",
    )


def root_of(file: YamlDocument) -> Path:
    """Return the folder of all results of a campaign file, which need not be right otherwise."""
    folder = below(file.path.absolute().parent, str(file.data.get("results", "results")))
    return folder / str(file.data.get("name", "NAME"))


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
        folder, hint = Layout(root_of(read_campaign_file(path))).latest.resolve(), f"buran run {path}"
    if not (folder / REPORT).is_file():
        raise UsageError("the campaign has no results yet", where=path, why=f"there is no {folder / REPORT}", hint=hint)
    return folder
