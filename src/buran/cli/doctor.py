"""``buran doctor``: what this machine can do, and the consequences of what is missing."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from buran.cli.arguments import add_loudness
from buran.cli.terminal import is_quiet, style
from buran.errors import Exit, UsageError

HELP = "report what this machine can do, and the consequences of what is missing"

_COLOURS = {"works": "green", "limited": "yellow", "missing": "yellow", "needed": "red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("folder", type=Path, nargs="?", default=Path(), help="folder for results")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_loudness(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what was found; exit code 3 if nothing can be measured here."""
    from buran.measurement.finding import Health
    from buran.measurement.machine.doctor import examine

    if not arguments.folder.is_dir():
        raise UsageError("there is no such folder", where=arguments.folder)
    findings = examine(arguments.folder)
    if arguments.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        width = max(len(finding.part) for finding in findings)
        shown = [finding for finding in findings if not is_quiet() or finding.state is not Health.WORKS]
        for finding in shown:
            mark = style(f"{finding.state:<7}", _COLOURS[finding.state])
            print(f"{mark}  {finding.part:<{width}}  {finding.found}")
            for label, text in (("costs", finding.costs), ("next", finding.remedy)):
                if text:
                    print(f"{'':{9 + width}}  {label + ':':<7}{text}")
    stuck = [finding.part for finding in findings if finding.state is Health.NEEDED]
    if not arguments.json:
        missing = sum(finding.state in (Health.LIMITED, Health.MISSING) for finding in findings)
        verdict = f"nothing can be measured here without: {', '.join(stuck)}" if stuck else "this machine can measure"
        print(f"\n{verdict}" + (f"; {missing} of {len(findings)} parts are limited or missing" if missing else ""))
    return int(Exit.ENVIRONMENT if stuck else Exit.DONE)
