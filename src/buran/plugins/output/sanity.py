"""What sanity checks add to campaigns; the checks themselves are imported where they are made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from buran.campaign.mistakes import Mistake
from buran.campaign.values import OfQueue
from buran.features import Feature, Key, Start, Watch
from buran.plugins.output.keys import SanityKeys, pattern_mistakes

if TYPE_CHECKING:
    from buran.campaign.records import RunRecord
    from buran.campaign.shape import CampaignFile
    from buran.workflow.history import History


_KEY = Key(
    OfQueue[SanityKeys],
    SanityKeys(),
    "Conditions on what a program prints, on standard output or standard error of any rank. A run that does not meet "
    "them is a failed run. Runs made before a condition was added stay; the report names those that do not meet it.",
)


def _mistakes(config: CampaignFile, environment: str) -> Iterator[Mistake]:
    """Refuse patterns that say nothing."""
    sanity = config.sanity  # type: ignore[attr-defined]
    for name in ("found", "not_found"):
        for position, pattern in enumerate(getattr(sanity, name)):
            yield from pattern_mistakes(("sanity", name, position), pattern)
    for position, reference in enumerate(sanity.references):
        yield from pattern_mistakes(("sanity", "references", position, "pattern"), reference.pattern)


@dataclass(frozen=True)
class _SanityWatch:
    """Checks the output of one run after its end."""

    keys: SanityKeys
    files: tuple[Path, ...]

    def sample(self) -> None:
        """Look at nothing while the program runs."""

    def complete(self, record: RunRecord) -> RunRecord:
        """Return the record as it is."""
        return record

    def failure(self) -> str | None:
        """Return which condition the output does not meet."""
        from buran.plugins.output.check import violations

        (violation,) = violations(self.keys, [self.files])
        return None if violation is None else f"sanity: {violation}"


def _watch(start: Start) -> Watch | None:
    keys = start.campaign.config.sanity  # type: ignore[attr-defined]
    return None if keys == _KEY.default else _SanityWatch(keys, (start.job.stdout, start.job.stderr))


def _notes(history: History) -> Iterable[str]:
    from buran.plugins.output.check import earlier_runs

    keys = history.session.campaign.config.sanity  # type: ignore[attr-defined]
    return () if keys == _KEY.default else earlier_runs(keys, history)


FEATURE = Feature("sanity", _KEY, mistakes=_mistakes, watch=_watch, notes=_notes)
