"""What was found out of each function: nothing that was measured once is tried again for nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from buran.errors import FormatError
from buran.files import read_json, write_json

SCHEMA = "buran-verdicts/1"


@dataclass(frozen=True)
class Verdict:
    """What became of a function.

    Attributes
    ----------
    kept
        Whether it stays instrumented.
    reason
        Why, as half a sentence.
    share
        Of the predicted time; None if it was never called.
    visits
        Predicted at the target; None if unknown.
    """

    kept: bool
    reason: str
    share: float | None = None
    visits: float | None = None


Verdicts = Mapping[str, Verdict]
"""By linker symbol."""


def write_verdicts(path: Path, verdicts: Verdicts) -> None:
    """Write what is known of functions."""
    write_json(path, {"schema": SCHEMA, "functions": {name: asdict(verdicts[name]) for name in sorted(verdicts)}})


def read_verdicts(path: Path) -> dict[str, Verdict]:
    """Read it.

    Raises
    ------
    FormatError
        The file is of another kind or damaged.
    """
    data = read_json(path)
    try:
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema {data['schema']!r}")
        return {name: Verdict(**each) for name, each in data["functions"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError("this is no file of verdicts", where=path, why=str(error)) from error
