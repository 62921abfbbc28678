"""Each key of the section `scorep` decides what it says."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from test_identity import folder, identities, loaded

from buran.campaign.config import Campaign
from buran.campaign.identity import Decides, decides
from buran.measurement.backends.base import SYSTEMS
from buran.plugins.scorep.feature import ScorePKeys, keys_of

__all__ = ["folder"]
NEW = {"process_memory_mb": 256, "effort_metric": "PAPI_TOT_INS", "options": "--user"}


@pytest.mark.parametrize("key", ScorePKeys.model_fields)
def test_a_change_causes_what_the_key_says(folder: Path, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def backend(campaign: Campaign, scratch: Path) -> object:
        own = keys_of(campaign.config)
        return SimpleNamespace(identity=f"{own.effort_metric} {own.options}")

    monkeypatch.setattr(SYSTEMS.load("scorep"), "open", backend)
    needed = {"backend": "scorep"}
    before, after = (identities(loaded(folder, each)) for each in (needed, {**needed, f"scorep.{key}": NEW[key]}))
    decided = decides(ScorePKeys.model_fields[key])
    assert decided in (Decides.TARGET, Decides.PLAN)
    assert (before[0] != after[0]) is (decided is Decides.TARGET) and before[1] != after[1]
