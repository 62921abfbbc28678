"""What these tests share with those of the packages that they are about."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("campaign", "simulate")]
