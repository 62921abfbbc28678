"""Data that others published: tests use them where a folder with them is named, and are skipped elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "BURAN_DATA"
_REASON = "data of others: "


def folder(name: str) -> Path:
    """Return the folder of a data set, whether it is there or not: ``extrap``, ``relearn``, ``cpr``."""
    return Path(os.environ.get(VARIABLE, "/nowhere")) / name


def needs(name: str) -> pytest.MarkDecorator:
    """Skip a test where a data set is not there."""
    return pytest.mark.skipif(not folder(name).is_dir(), reason=_REASON + name)


def file_of(name: str, *parts: str) -> Path:
    """Return a file of a data set; skip the running test where it is not there."""
    path = folder(name).joinpath(*parts)
    if not path.exists():
        pytest.skip(_REASON + name)
    return path


def lacking(reports: Iterable[Any]) -> list[str]:
    """Return the data set that each skipped test wanted, of those that wanted one."""
    reasons = (str(report.longrepr[2]) for report in reports if isinstance(report.longrepr, tuple))
    return [reason.partition(_REASON)[2] for reason in reasons if _REASON in reason]
