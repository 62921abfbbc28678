from __future__ import annotations

from pathlib import Path

import pytest
from campaign_files import WriteCampaign, writer


@pytest.fixture
def write_campaign(tmp_path: Path) -> WriteCampaign:
    """Write a campaign file: a small correct one with changes, or a text as it is."""
    return writer(tmp_path)
