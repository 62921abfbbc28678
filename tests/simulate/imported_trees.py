"""Trees of profiles for tests of imports: what an earlier campaign has measured, as Extra-P names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from buran.campaign.plan import Mode, Plan
from buran.profiles.experiment.extrap_tree import write_extrap_tree
from buran.workflow.collect import profiles_of
from buran.workflow.history import History
from buran.workflow.session import Session
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import opened


def measured_tree(folder: Path, tree: Path, program: dict[str, Any] | None = None, **changes: Any) -> Path:
    """Run a campaign with another seed, and write its timed runs as a tree that Extra-P opens."""
    session = opened(folder, program, **{"seed": 99, "refinement": {"enabled": False}, **changes})
    carry_out(session)
    runs = [run for run in History.open(session).runs if run.mode is Mode.TIME]
    write_extrap_tree(tree, profiles_of(runs, session.campaign.parameters), prefix="old")
    return tree


def plans(session: Session) -> list[Plan]:
    """Return the plans so far."""
    return History.open(session).plans
