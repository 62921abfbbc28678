"""The version number, from git's tags: the builds of both distributions ask for `__version__`.

At the tag `v0.2.0` it is 0.2.0, and three commits later 0.2.1.dev3+gabc1234. Without tags, or without git, it is the
newest release of the changelog with `+untagged`. A source archive holds its number, and nothing is asked.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def version_of_checkout(root: Path = ROOT) -> str:
    """Return the version of the files in a checkout, or in an archive of them."""
    described = _described(root) if (root / ".git").exists() else None  # git would find a repository around it, too
    parts = re.fullmatch(r"v(\d+\.\d+\.)(\d+)-(\d+)-(g[0-9a-f]+)(-dirty)?", described or "")
    if parts:
        series, last, commits, commit, dirty = parts.groups()
        if commits == "0" and not dirty:
            return series + last
        return f"{series}{int(last) + 1}.dev{commits}+{commit}{'.dirty' if dirty else ''}"
    changelog = root / "CHANGELOG.md"
    released = re.search(r"^## (\d+\.\d+\.\d+) - ", changelog.read_text(encoding="utf-8"), re.MULTILINE)
    if released is None:
        raise ValueError(f"{changelog} has no section of a release, such as `## 0.2.0 - 2026-11-22`")
    return f"{released[1]}+untagged"


def _described(root: Path) -> str | None:
    command = ["git", "describe", "--tags", "--long", "--dirty", "--match", "v[0-9]*.[0-9]*.[0-9]*"]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


__version__ = version_of_checkout()
