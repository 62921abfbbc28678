"""``buran doctor``: what this machine can do, and the consequences of what is missing."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from buran.cli.terminal import style, table
from buran.errors import Exit, UsageError

HELP = "report what this machine can do, and the consequences of what is missing"

_COLOURS = {"works": "green", "limited": "yellow", "missing": "yellow", "needed": "red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("folder", type=Path, nargs="?", default=Path(), help="folder for results")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--calibrate", type=Path, metavar="FILE", help="measure caches, memory and cores, and write FILE"
    )
    parser.add_argument("--caches-kib", metavar="KIB,...", help="cache sizes, if the machine does not report them")


def run(arguments: argparse.Namespace) -> int:
    """Print what was found; exit code 3 if nothing can be measured here."""
    from buran.measure.finding import Health
    from buran.measure.machine.doctor import examine

    if arguments.calibrate is not None:
        return _calibrate(arguments.calibrate, arguments.caches_kib)
    if not arguments.folder.is_dir():
        raise UsageError("there is no such folder", where=arguments.folder)
    findings = examine(arguments.folder)
    if arguments.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        width = max(len(finding.part) for finding in findings)
        for finding in findings:
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


def _calibrate(path: Path, caches_kib: str | None) -> int:
    """Measure this machine, write what was found and show it."""
    from buran.campaign.machine_file import MachineFile
    from buran.files import write_json
    from buran.measure.machine.speed import calibrate

    if path.is_dir():
        raise UsageError("this is a folder", where=path, hint="name a file, such as machine.json")
    machine = calibrate(None if caches_kib is None else _kib(caches_kib))
    write_json(path, {"schema": MachineFile.schema_read, **asdict(machine)}, depth=3)
    rows = []
    for number, level in enumerate(machine.levels, start=1):
        size = "memory" if level.bytes is None else f"level {number}, {level.bytes / 1024:.0f} KiB"
        times = (f"{1e9 * time:.3g} ns" for time in (level.latency_s, level.latency_busy_s, level.gather_s))
        speeds = (f"{1e-9 * speed:.3g} GB/s" for speed in (level.bandwidth, level.bandwidth_busy))
        rows.append([size, *times, *speeds])
    print(f"{machine.host}: {machine.cpu}, {machine.cores} cores, {machine.date}")
    print(table(["", "latency", "all cores busy", "loads apart", "bandwidth of a core", "all cores busy"], rows))
    if machine.page_bytes:
        print(f"pages of {machine.page_bytes / 1024:.0f} KiB, as programs get them")
    print(f"{1e-9 * machine.flops:.3g} GFLOP/s a core; {1e-9 * machine.flops_busy:.3g} with all cores busy")
    for note in (f"the median round took up to {100 * machine.spread:.0f} % longer than the least", *machine.notes):
        print(f"note: {note}")
    print(f"written to {path}")
    return int(Exit.DONE)


def _kib(text: str) -> list[float]:
    """Read ``32,1024``, as bytes."""
    try:
        return [1024 * float(word) for word in text.split(",")]
    except ValueError:
        why, hint = f"{text!r} are no numbers with commas between", "as in --caches-kib 32,1024,32768"
        raise UsageError("sizes of caches cannot be read", where="--caches-kib", why=why, hint=hint) from None
