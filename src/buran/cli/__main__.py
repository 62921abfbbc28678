"""``python -m buran.cli``."""

import sys

from buran.cli import main

sys.exit(main())
