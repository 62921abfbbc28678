"""What was found out of each function: nothing that was measured once is tried again for nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from buran.files import Stored, decode, read_document, write_json

SCHEMA = "buran-verdicts/1"
_HINT = "move it away: `buran run` goes on with the filter in its folder, and tries again what was tried before"


@dataclass(frozen=True)
class FunctionVerdict(Stored):
    """What became of a function.

    Attributes
    ----------
    kept
        Whether it stays instrumented.
    reason
        Why, as half a sentence; empty if nothing is known.
    share
        Share of the predicted time; None if it was never called.
    visits
        Predicted at the target; None if unknown.
    overhead
        Predicted time in its hooks over the time of the program without any, at the target; None if unknown.
    name
        As it is shown; empty if only the symbol is known.
    """

    kept: bool
    reason: str
    share: float | None = None
    visits: float | None = None
    overhead: float | None = None
    name: str = ""

    @property
    def comment(self) -> str:
        """What is known of it, in one line; empty if that is nothing."""
        facts = [self.reason] if self.reason else []
        if self.visits is not None:
            facts.append(f"{self.visits:.3g} visits")
        if self.overhead is not None:
            facts.append(f"instrumentation {100 * self.overhead:.2g} %")
        return f"{self.name}: {', '.join(facts)}" if facts else ""


Verdicts = Mapping[str, FunctionVerdict]
"""By linker symbol."""


def write_verdicts(path: Path, verdicts: Verdicts) -> None:
    """Write what is known of functions."""
    write_json(path, {"schema": SCHEMA, "functions": {name: asdict(verdicts[name]) for name in sorted(verdicts)}})


def read_verdicts(path: Path) -> dict[str, FunctionVerdict]:
    """Read it.

    Raises
    ------
    FormatError
        The file is of another kind or damaged.
    """

    def parse(data: dict[str, Any]) -> dict[str, FunctionVerdict]:
        return {name: decode(FunctionVerdict, verdict) for name, verdict in data["functions"].items()}

    return read_document(path, SCHEMA, parse, what="file of verdicts", hint=_HINT)
