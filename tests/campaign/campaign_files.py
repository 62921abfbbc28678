from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

BASE: dict[str, Any] = {
    "name": "demo",
    "program": {
        "source": "code",
        "build": "make MPICXX={mpicxx} CXXFLAGS='{flags}'",
        "binary": "demo",
        "run": "{binary} {n}",
    },
    "parameters": {
        "p": {"role": "ranks", "values": [1, 2, 4, 8]},
        "n": {"role": "size", "range": {"start": 10, "stop": 80, "factor": 2}},
    },
}

WriteCampaign = Callable[..., Path]


def changed(data: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Set keys by dotted path; None removes one."""
    data = copy.deepcopy(data)
    for dotted, value in changes.items():
        *parents, last = dotted.split(".")
        place = data
        for parent in parents:
            place = place.setdefault(parent, {})
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
    return data


def writer(folder: Path) -> WriteCampaign:
    """Return a function that writes a campaign file, with a source folder beside it."""
    (folder / "code").mkdir()
    (folder / "code" / "Makefile").write_text("demo:\n")

    def write(text: str | bytes | None = None, /, **changes: Any) -> Path:
        path = folder / "campaign.yaml"
        if text is None:
            dotted = {key.replace("__", "."): value for key, value in changes.items()}
            text = yaml.safe_dump(changed(BASE, dotted), sort_keys=False)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write
