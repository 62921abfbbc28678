"""Whether programs count the same on a simulated machine as under real MPIs, in every call path of every rank.

    python studies/benchmarks/counts_of_mpis.py [--mpicc MPICC] [--ranks 1 2 4 8] CAMPAIGN...

Each campaign file says how a program is built and run; of its points with these numbers of ranks, the smallest is run
under the MPI of MPICC (by default the one in PATH), and on a simulated machine. Prints a line for each program.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from buran.campaign.config import Campaign
from buran.campaign.document import read_yaml
from buran.campaign.load import load_campaign
from buran.errors import BuranError
from buran_studies.machine.counts import differences
from buran_studies.machine.laboratory import bench_for
from buran_studies.machine.study import MACHINES


def judge(path: Path, ranks: Sequence[int]) -> str:
    """Return the line of a program."""
    campaign = load_campaign(path)
    by_size = sorted(campaign.points, key=lambda point: [float(value) for value in point.values()])
    points = [next((point for point in by_size if campaign.ranks(point) == p), None) for p in ranks]
    chosen = [point for point in points if point is not None]
    keys = dict(read_yaml(path).data)
    keys["program"] = {**keys["program"], "source": str(campaign.source), "inputs": _inputs(campaign)}
    with tempfile.TemporaryDirectory(prefix="buran-counts-") as name:
        benches = []
        for where, environment in (("here", {}), ("there", {"machine": dict(MACHINES["fat tree"])})):
            (folder := Path(name) / where).mkdir()
            benches.append(bench_for({**keys, "environments": {where: environment}}, folder))
        found = differences(benches[0], benches[1], chosen)
    tried = ", ".join(str(campaign.ranks(point)) for point in chosen)
    line = (
        f"| {campaign.name} | {benches[0].backend.mpi_flavour} | {tried} | {found['compared']} | {found['unequal']} |"
    )
    return "\n".join((line, *(f"    {text}" for text in found["differing"][:20])))


def _inputs(campaign: Campaign) -> list[dict[str, Any]]:
    """Return the key `inputs` of a program that is built elsewhere: with absolute paths, but for those in the build."""
    return [
        {
            "path": str(entry.path if entry.path.is_absolute() else Path("{build}", entry.path)),
            "name": entry.name,
            "link": entry.link,
            "fill": entry.fill,
        }
        for entry in campaign.inputs
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge each program; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("campaigns", type=Path, nargs="+", metavar="CAMPAIGN")
    parser.add_argument("--mpicc", help="of the MPI to compare with")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8])
    options = parser.parse_args(arguments)
    # Its old C++ interface starts streams in each file, before main.
    os.environ.setdefault("OMPI_CXXFLAGS", "-DOMPI_SKIP_MPICXX")
    if options.mpicc:
        os.environ["BURAN_MPICC"] = options.mpicc
    for path in options.campaigns:
        try:
            print(judge(path, options.ranks), flush=True)
        except BuranError as error:
            print(f"{path.stem}: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
