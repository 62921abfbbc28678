"""What times of earlier filters are worth: simulated campaigns whose filter changes, `model.pool_filters` off and auto.

    python studies/benchmarks/pooling.py [--cases LULESH,MiniFE] [--seeds 2,3] [--share 0.1]

The budget is a share of what the full matrix takes without hooks. Judged are call paths above 1 % of the time at P+.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import yaml

from buran.campaign.load import load_campaign
from buran.campaign.plan import Mode
from buran.files import not_synced
from buran.workflow.history import History
from buran.workflow.session import open_session
from buran_studies.campaign.cases import CASES, Case, campaign, program
from buran_studies.simulate.in_process import carry_out
from buran_studies.simulate.program import program_of
from buran_studies.simulate.run import Variant
from buran_studies.simulate.twin import models_and_truth


def play(case: Case, seed: int, share: float, pool_filters: str, folder: Path) -> str:
    """Carry out a campaign; return a line about it."""
    described = program(case, seed)
    (folder / "program.yaml").write_text(yaml.safe_dump(described, sort_keys=False))
    file = folder / "campaign.yaml"
    changes = {"warmup": False, "effort_repetitions": 1, "strategy": {"name": "design", "max_iterations": 12}}
    file.write_text(yaml.safe_dump(campaign(case, seed, **changes)))
    asked = load_campaign(file)
    bare = Variant(program_of(described, tuple(case.values), case.name), Mode.VANILLA, frozenset())
    whole = sum(bare.took(point, asked.ranks(point), str(point)).wall_s * asked.cores(point) for point in asked.points)
    changes |= {
        "budget": {"core_hours": share * whole * case.repetitions / 3600},
        "target": dict(case.target),
        "refinement": {"pilot": False},
        "model": {"pool_filters": pool_filters},
    }
    file.write_text(yaml.safe_dump(campaign(case, seed, **changes)))
    session = open_session(file)
    last = carry_out(session)
    errors = np.abs([each.error for each in models_and_truth(History.open(session))] or [np.inf])
    return (
        f"{case.name:12} seed {seed} {pool_filters:5} {len(errors):3} call paths, {100 * np.mean(errors < 0.1):5.1f} % "
        f"within 10 %, median error {100 * np.median(errors):.2f} %, {last.spent_core_hours:.3g} core hours"
    )


def main() -> None:
    """Play all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="LULESH,MiniFE,FASTEST,Kripke,Quicksilver")
    parser.add_argument("--seeds", default="2,3")
    parser.add_argument("--share", type=float, default=0.1)
    asked = parser.parse_args()
    for name in asked.cases.split(","):
        for seed in map(int, asked.seeds.split(",")):
            for pool_filters in ("off", "auto"):
                with tempfile.TemporaryDirectory() as folder, not_synced():
                    print(play(CASES[name], seed, asked.share, pool_filters, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
