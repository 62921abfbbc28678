"""Simulated campaigns for tests: a program of a few call paths, and a file that measures it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from buran.workflow.session import Session, open_session

PROGRAM: dict[str, Any] = {
    "schema": "buran-program/1",
    "startup_s": 0.1,
    "noise": {"percent": 2},
    "program": {
        "main": {
            "time_s": 0.01,
            "calls": {
                "solve": {
                    "time_s": "2e-7 * n**3",
                    "visits": 100,
                    "basic_blocks": "3 * n**3",
                    "calls": {
                        "tiny": {"time_s": "1e-8 * n**3", "visits": "n**3", "basic_blocks": "n**3"},
                        "hidden": {"kind": "inline", "time_s": "1e-8 * n**3", "visits": "n**3", "basic_blocks": "n**3"},
                        "MPI_Allreduce": {
                            "time_s": "1e-3 * log2(p)", "visits": 100, "bytes_sent": "800 * p",
                            "bytes_received": "800 * p", "waiting_s": "1e-3 * sqrt(p)",
                        },
                    },
                },
                "setup": {"time_s": "1e-5 * n**2", "basic_blocks": "1000 * n**2"},
            },
        }
    },
}  # fmt: skip

CAMPAIGN: dict[str, Any] = {
    "name": "sim",
    "backend": "simulated",
    "simulated": "program.yaml",
    "parameters": {
        "p": {"role": "ranks", "values": [4, 8, 16, 32]},
        "n": {"role": "size", "values": [20, 30, 40, 50]},
    },
    "repetitions": 2,
    "target": {"p": 4096, "n": 200},
    "strategy": {"name": "lines"},
}


def written(folder: Path, program: dict[str, Any] | None = None, **changes: Any) -> Path:
    """Write a campaign and its program; `changes` replace keys of the campaign."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "program.yaml").write_text(yaml.safe_dump(PROGRAM if program is None else program, sort_keys=False))
    path = folder / "campaign.yaml"
    path.write_text(yaml.safe_dump({**CAMPAIGN, **changes}, sort_keys=False))
    return path


def opened(folder: Path, program: dict[str, Any] | None = None, **changes: Any) -> Session:
    """Write a campaign and open it."""
    return open_session(written(folder, program, **changes))
