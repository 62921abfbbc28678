"""What these tests share with those of the packages that they are about."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "campaign"))
