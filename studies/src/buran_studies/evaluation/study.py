"""What a study is, and which there are."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from buran.errors import UsageError
from buran.files import digest
from buran_studies.evaluation.evaluation import Evaluation

STUDIES: Mapping[str, str] = {
    "campaign": "hours; whole campaigns compared with the manual way and PIRA II",
    "correction": "hours; correction of analytical models, as published and by default",
    "coverage": "minutes; intervals beyond the points",
    "kills": "minutes; campaigns killed at any system call",
    "machine": "hours; real programs on simulated machines, compared with a real MPI and theory",
    "memory": "minutes; operations and cache misses, compared with theory and valgrind",
    "priors": "minutes; savings and noise tolerance of priors",
    "refinement": "hours; cost and losses of refined filters",
    "selection": "hours; strategies that choose points",
    "versions": "minutes; changes between versions, found by counts",
    "tensor": "hours; tensor models, on the data of the CPR paper",
}
"""Names of the studies, each a package with a module `study`: how long they take on two cores, and what they ask."""

Shard = Mapping[str, Any]
"""A piece of an evaluation as JSON values; it says everything that its result depends on, its seed too.

Shards whose results it is made from, if any, stand under `NEEDS`.
"""

PUBLISHED = "published"
"""Preset of a paper's own set-up, with its numbers beside ours; of the studies in `OF_PAPERS`."""
OF_PAPERS = ("selection", "priors", "correction", "tensor", "refinement")
RENAMED = {"paper": PUBLISHED, "gpr-literal": PUBLISHED}
"""Presets of older versions."""
ALONE = "alone"
"""Key of shards that measure times on this machine: nothing else runs then."""
NEEDS = "needs"
RESULTS = "results"


@dataclass(frozen=True)
class Settings:
    """What the user chose.

    Attributes
    ----------
    quick
        Fewer draws, the same code.
    preset
        ``default``, `PUBLISHED`, or a study's own.
    draws
        Samples per cell; None for the study's own number.
    data
        Folder of measured data, for studies that need some.
    """

    study: str
    quick: bool = False
    seed: int = 0
    preset: str = "default"
    draws: int | None = None
    data: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        return asdict(self)

    @property
    def id(self) -> str:
        """Identity of the evaluation: equal settings share their results."""
        return digest(self.to_json())

    def require(self, *presets: str) -> None:
        """Refuse a preset that a study does not have.

        Raises
        ------
        UsageError
            With those that it has.
        """
        if self.preset not in presets:
            what = f"the study {self.study} has no preset {self.preset!r}"
            raise UsageError(what, hint=f"one of: {', '.join(presets)}")

    def data_folder(self) -> Path:
        """Return the folder of measured data.

        Raises
        ------
        UsageError
            None was given, or it does not exist.
        """
        hint = "name the folder with --data DIR"
        if self.data is None:
            raise UsageError(f"the study {self.study} needs measured data", hint=hint)
        if not Path(self.data).is_dir():
            raise UsageError("the data's folder does not exist", where=self.data, hint=hint)
        return Path(self.data)


class Study(Protocol):
    """What each module of a study has."""

    def shards(self, settings: Settings) -> Sequence[Shard]:
        """Cut the work into pieces of seconds to minutes, independent of each other."""

    def run_shard(self, shard: Shard, settings: Settings) -> Any:
        """Work on one piece; return JSON values. Under `RESULTS` are those of the shards that it needs, in order."""

    def summarise(self, results: Sequence[Any], settings: Settings) -> Evaluation:
        """Make figures, tables and plots of the results, which come in the order of the shards."""


def check_preset(settings: Settings) -> None:
    """Refuse a preset of an older version, and a paper's where the study is of none.

    Raises
    ------
    UsageError
        With the new name, or the studies that have it.
    """
    if settings.preset in RENAMED:
        now = RENAMED[settings.preset]
        raise UsageError(f"the preset {settings.preset!r} is called {now!r} now", hint=f"give --preset {now}")
    if settings.preset == PUBLISHED and settings.study not in OF_PAPERS:
        raise UsageError(
            f"the study {settings.study} has no preset {PUBLISHED!r}",
            why="it is of no paper",
            hint=f"{', '.join(OF_PAPERS)} have it",
        )


def study_of(name: str) -> Study:
    """Return a study.

    Raises
    ------
    UsageError
        There is none of this name.
    """
    if name not in STUDIES:
        raise UsageError(f"there is no study {name!r}", hint=f"one of: {', '.join(sorted(STUDIES))}")
    return cast(Study, importlib.import_module(f"buran_studies.{name}.study"))
