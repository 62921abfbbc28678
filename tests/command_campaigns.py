"""Campaigns of a program that measures itself, or that another tool measures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from buran.modeling.pmnf import read_models
from buran.workflow.history import History
from buran.workflow.session import Session

PROGRAM = """#!/bin/sh
echo "size $1"
echo "rate: $((1000 / $1)) updates/s"
test -n "$LEAVE" && printf '%s\\n' \\
  '{"params":{"run":1},"callpath":"main","metric":"time","value":0.5}' \\
  '{"params":{"run":1},"callpath":"main->solve","metric":"time","value":'$1'}' \\
  '{"params":{"run":1},"callpath":"main->solve","metric":"cells","value":'$(($1 * $1))'}' \\
  '{"params":{"run":1},"callpath":"main","metric":"cells","value":0}' > "$LEAVE"
exit 0
"""


def write_campaign(folder: Path, command: Mapping[str, Any], **keys: Any) -> Path:
    return write_campaign_of(PROGRAM, folder, command=dict(command), **keys)


def write_campaign_of(script: str, folder: Path, /, **keys: Any) -> Path:
    """Write a shell script, and a campaign that runs it."""
    (folder / "source").mkdir(exist_ok=True)
    (folder / "source" / "program.sh").write_text(script)
    campaign = {
        "name": "itself",
        "backend": "command",
        "program": {
            "source": "source",
            "build": "cp program.sh program && chmod +x program",
            "binary": "program",
            "run": "{binary} {n}",
        },
        "parameters": {"n": {"role": "size", "values": [1, 2, 4, 5, 8]}},
        "environments": {"here": {"launcher": "none"}},
        "resources": {"ranks": 1, "time_limit": 60},
        "repetitions": 1,
        "warmup": False,
        **keys,
    }
    path = folder / "campaign.json"
    path.write_text(json.dumps(campaign))
    return path


def models_of(session: Session) -> dict[str, Any]:
    last = len(History.open(session).plans) - 1
    return {models.metric: models for models in read_models(session.layout.models(session.id, last - 1))}
