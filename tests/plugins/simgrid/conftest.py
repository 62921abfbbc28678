"""What these tests share with those of the packages that they are about."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [
    str(Path(__file__).parents[2] / name) for name in ("campaign", "measurement", "modeling/priors", "workflow")
]

from campaign_files import WriteCampaign, writer  # noqa: E402


@pytest.fixture
def write_campaign(tmp_path: Path) -> WriteCampaign:
    """Write a campaign file: a small correct one with changes, or a text as it is."""
    return writer(tmp_path)
