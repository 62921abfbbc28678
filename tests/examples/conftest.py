"""The bundled example programs, built once for all tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from example_programs import EXAMPLES, NAMES, Run, launch


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Binaries by name, built outside the source tree with every warning an error."""
    if not all(shutil.which(tool) for tool in ("make", "mpicc", "mpicxx", "mpirun")):
        pytest.skip("needs make and an MPI")
    binaries = {}
    for name in NAMES:
        folder = tmp_path_factory.mktemp(name)
        flags = "-O2 -Wall -Wextra -Werror"
        subprocess.run(
            ["make", "-s", "-f", str(EXAMPLES / name / "Makefile"), f"CFLAGS={flags}", f"CXXFLAGS={flags}"],
            cwd=folder,
            check=True,
        )
        binaries[name] = folder / name
    return binaries


@pytest.fixture
def run(built: dict[str, Path]) -> Run:
    """Return ``run(name, ranks, *arguments)``."""

    def start(name: str, ranks: int | None, *arguments: object) -> subprocess.CompletedProcess[str]:
        return launch(built[name], ranks, *arguments)

    return start
