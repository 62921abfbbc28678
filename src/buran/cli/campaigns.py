"""``buran list``: the campaigns below a folder, and what is known of them."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from buran.cli.terminal import style

HELP = "list the campaigns below a folder, with their reports"
_DEEPEST = 4  # folders
_PASSED_OVER = {"results", "node_modules", "store"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "folder", type=Path, nargs="?", default=Path(), metavar="DIR", help="folder to search (default: this one)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print a line for each campaign file."""
    folder: Path = arguments.folder
    if not folder.is_dir():
        from buran.errors import UsageError

        raise UsageError("there is no such folder", where=folder, hint="name one with campaign files below it")
    found = list(_campaigns(folder))
    if arguments.json:
        print(json.dumps(found, indent=2))
        return 0
    if not found:
        print(f"no campaign file within {_DEEPEST} folders below {folder.resolve()}; `buran init DIR` writes one")
        return 0
    widest = max(len(each["name"]) for each in found)
    print(style(f"{'campaign':<{widest}}  {'last report':<16}  core hours  file", "bold"))
    for each in found:  # no table, which would break the paths of files
        cost = "" if each["core_hours"] is None else f"{each['core_hours']:.4g}"
        print(f"{each['name']:<{widest}}  {each['report'] or 'none':<16}  {cost:>10}  {each['file']}")
    return 0


def _campaigns(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield what each campaign file says, and the date and the cost of its last report."""
    from buran.campaign.document import read_campaign_file
    from buran.campaign.layout import Layout
    from buran.campaign.results import REPORT, root_of
    from buran.errors import BuranError
    from buran.files import read_json

    for path in _yaml_files(folder):
        try:
            document = read_campaign_file(path)
        except BuranError:
            continue  # other files may lie there
        data = document.data
        if not {"name", "parameters"} <= data.keys() or not {"program", "backend", "include"} & data.keys():
            continue
        known: dict[str, Any] = {"report": None, "core_hours": None}
        try:
            report = Layout(root_of(document)).latest / REPORT
            kept = read_json(report)
            known["report"] = datetime.fromtimestamp(report.stat().st_mtime).strftime("%Y-%m-%d %H:%M")
            known["core_hours"] = kept.get("spent_core_hours")
        except BuranError:
            pass  # it has none yet, or one that cannot be read
        yield {"name": str(data["name"]), "file": os.path.relpath(path, folder), **known}


def _yaml_files(folder: Path) -> Iterator[Path]:
    """Yield YAML files below a folder, in the order of their paths, without those of results."""
    for root, folders, names in os.walk(folder):
        depth = len(Path(root).relative_to(folder).parts)
        folders[:] = sorted(
            each for each in folders if depth < _DEEPEST and each not in _PASSED_OVER and not each.startswith(".")
        )
        for name in sorted(names):
            if name.endswith((".yaml", ".yml")):
                yield Path(root) / name
