"""Values that our reader and Cube's own `cube_dump` find in profiles, metric by metric, and what Cube says of ours.

    python studies/benchmarks/cube_values.py FILE.cubex ...

A line for each profile: metrics whose values are the same (six digits) of those that both show, whether Cube's tools
open the profile as we write it, and what `cube_sanity` finds in ours beyond regions without a file or a line. Ends with
1 where something differs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "profiles"))

from test_cube_tools import TOOLS, dumped, findings, said

from buran.errors import BuranError
from buran.profiles.cubex_read import read_cubex
from buran.profiles.cubex_write import write_cubex

_INNOCENT = ("Proper line numbers", "File name not empty")


def numbers(file: Path) -> tuple[list[int], list[int]]:
    """Return Cube's numbers of call paths and of locations in our order: of the file; by rank and thread."""
    content = file.read_bytes()
    cube = ElementTree.fromstring(content[content.index(b"<cube ") : content.index(b"</cube>") + len(b"</cube>")])
    places = [
        (int(group.findtext("rank", "0")), int(place.findtext("rank", "0")), int(place.get("Id", "0")))
        for group in cube.iter("locationgroup")
        for place in group.iter("location")
    ]
    return [int(node.get("id", "0")) for node in cube.iter("cnode")], [number for _, _, number in sorted(places)]


def metrics(file: Path) -> tuple[list[str], list[str]]:
    """Return the metrics whose values are the same for both, and those that differ."""
    profile = read_cubex(file)
    same, different = list[str](), list[str]()
    for name, metric in profile.metrics.items():
        if not np.any(profile.values[name]):
            continue
        ours = profile.values[name].astype(np.float64)
        try:
            theirs = dumped(file, [name], metric.kind[:4])[name][np.ix_(*numbers(file))]
        except ValueError:
            different.append(f"{name} ({metric.dtype}: Cube shows no number)")
            continue
        equal = ours.shape == theirs.shape and np.allclose(theirs, ours, rtol=1e-5)
        (same if equal else different).append(name)
    return same, different


def opened(file: Path) -> list[str]:
    """Return the tools of Cube that fail with a profile."""
    failed = []
    for tool in TOOLS:
        try:
            said(tool, *(("-m", "time") if tool in ("cube_dump", "cube_stat") else ()), str(file))
        except subprocess.CalledProcessError:
            failed.append(tool)
    return failed


def main() -> int:
    """Print a line for each profile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    wrong = 0
    for file in parser.parse_args().files:
        try:
            same, different = metrics(file)
            profile = read_cubex(file)
        except BuranError as error:
            print(f"{file}: not read: {error.line}")
            wrong += 1
            continue
        with tempfile.TemporaryDirectory() as name:
            own = Path(name) / "profile.cubex"
            write_cubex(profile, own)
            failed, found = opened(own), findings(own)
        found = {check: number for check, number in found.items() if number and check not in _INNOCENT}
        print(
            f"{file}: {len(profile.tree)} call paths x {len(profile.locations)} locations; the same: {', '.join(same)}"
            + (f"; DIFFERENT: {', '.join(different)}" if different else "")
            + (f"; not opened by {', '.join(failed)}" if failed else "; ours opened")
            + (f"; cube_sanity: {found}" if found else "; nothing found in ours"),
            flush=True,
        )
        wrong += bool(different or failed or found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
