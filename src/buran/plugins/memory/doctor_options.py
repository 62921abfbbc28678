"""``buran doctor --calibrate``: how fast the caches, the memory and the cores of this machine are."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from buran.cli.terminal import note, table
from buran.errors import Exit, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--calibrate", type=Path, metavar="FILE", help="measure caches, memory and cores instead, and write FILE"
    )
    parser.add_argument("--caches-kib", metavar="KIB,...", help="of a machine that does not report its caches")


def run(arguments: argparse.Namespace) -> int | None:
    """Calibrate where a file is named; without one, leave the rest to `buran doctor`."""
    return None if arguments.calibrate is None else _calibrate(arguments.calibrate, arguments.caches_kib)


def _calibrate(path: Path, caches_kib: str | None) -> int:
    """Measure this machine, write what was found and show it."""
    from buran.files import write_json
    from buran.plugins.memory.machine_file import MachineFile
    from buran.plugins.memory.speed import calibrate

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
    for text in (f"the median round took up to {100 * machine.spread:.0f} % longer than the least", *machine.notes):
        note(text)
    print(f"written to {path}")
    return int(Exit.DONE)


def _kib(text: str) -> list[float]:
    """Read ``32,1024``, as bytes."""
    try:
        return [1024 * float(word) for word in text.split(",")]
    except ValueError:
        why, hint = f"{text!r} are no numbers with commas between", "as in --caches-kib 32,1024,32768"
        raise UsageError("sizes of caches cannot be read", where="--caches-kib", why=why, hint=hint) from None
