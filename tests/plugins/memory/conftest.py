"""What tests of another machine share with those of the account of misses."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "prior"))
