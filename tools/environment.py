#!/usr/bin/env python3
"""Writes workflow/envs/buran.yaml, what scripts need in an environment of their own, from pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PATH = ROOT / "workflow" / "envs" / "buran.yaml"

NOT_IN_SCRIPTS = {"snakemake"}
"""Scripts are started by the workflow engine and do not import it."""
FROM_PYPI = {"pycubexr"}
"""What conda-forge does not have."""

_HEAD = """\
# What the scripts need, for `--software-deployment-method conda` (with PYTHONPATH set to the folder `src`).
# Off by default, and of no concern to what is measured: compilers and MPI always are the machine's own.
# Written by tools/environment.py from pyproject.toml; edit that.
channels:
  - conda-forge
  - nodefaults
dependencies:
"""


def environment() -> str:
    """Return the content of the file: the dependencies."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"]
    split = [re.fullmatch(r"([\w.-]+)(.*)", requirement) for requirement in wanted]
    named = {found[1]: f"{found[1]} {found[2]}".strip() for found in split if found and found[1] not in NOT_IN_SCRIPTS}
    lines = [f"  - python {project['requires-python']}"]
    lines += [f"  - {requirement}" for name, requirement in named.items() if name not in FROM_PYPI]
    lines += ["  - pip", "  - pip:"]
    lines += [f"      - {requirement}" for name, requirement in named.items() if name in FROM_PYPI]
    return _HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PATH.write_text(environment())
