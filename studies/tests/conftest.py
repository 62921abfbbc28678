"""What all tests of the studies need."""

import os

os.environ["BURAN_HISTORY"] = "off"  # campaigns of tests are not in the history of who runs them
