"""The documentation is that of Buran with all its plug-ins."""

from plugin_folders import MISSING

collect_ignore_glob = ["test_*.py"] if MISSING else []
