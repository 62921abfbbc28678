"""Which of Buran's own plug-ins are there: tests of the core pass without any of them."""

from __future__ import annotations

from importlib.metadata import distribution

import pytest

from buran.extensions import PLUGINS

NAMED = {
    entry.value.removeprefix("buran.plugins.").partition(".")[0]
    for entry in distribution("buran").entry_points
    if entry.value.startswith("buran.plugins.")
}
MISSING = sorted(name for name in NAMED if not (PLUGINS / name / "__init__.py").is_file())
needs_all_plugins = pytest.mark.skipif(bool(MISSING), reason=f"plug-ins that are not there: {', '.join(MISSING)}")
