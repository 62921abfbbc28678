"""Running an evaluation: a folder with its settings, one file for each shard, and the summary."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from buran.errors import UsageError
from buran.files import digest, read_json, write_json, write_text
from buran_studies.evaluation.evaluation import Evaluation
from buran_studies.evaluation.plots import draw
from buran_studies.evaluation.study import ALONE, NEEDS, RESULTS, Settings, Shard, Study, check_preset, study_of
from buran_studies.evaluation.text import text_of

SETTINGS = "settings.json"


@dataclass(frozen=True)
class Run:
    """An evaluation and the folder of its results."""

    settings: Settings
    folder: Path

    @classmethod
    def create(cls, settings: Settings, output: Path) -> Run:
        """Make or find the evaluation with these settings below a folder.

        Raises
        ------
        UsageError
            There is no such study or preset; nothing is written.
        """
        study_of(settings.study)
        check_preset(settings)
        made = cls(settings, output / f"{settings.study}-{settings.id}")
        write_json(made.folder / SETTINGS, settings.to_json())
        return made

    @classmethod
    def open(cls, folder: Path) -> Run:
        """Open an evaluation that was created."""
        return cls(Settings(**read_json(folder / SETTINGS)), folder)

    @cached_property
    def study(self) -> Study:
        """The study's module."""
        return study_of(self.settings.study)

    @cached_property
    def shards(self) -> dict[str, Shard]:
        """All shards by their names, in order."""
        named = {digest(dict(shard)): shard for shard in self.study.shards(self.settings)}
        if not named:
            raise UsageError(f"the study {self.settings.study} has nothing to do with these settings")
        return named

    def result(self, shard: str) -> Path:
        """Return the file of a shard's result."""
        return self.folder / "shards" / f"{shard}.json"

    def needed(self, shard: str) -> list[Path]:
        """Return the files of the results that a shard is made from."""
        return [self.result(digest(dict(other))) for other in self.shards[shard].get(NEEDS, ())]

    def alone(self, shard: str) -> bool:
        """Return whether a shard measures times, which others that run with it would change."""
        return bool(self.shards[shard].get(ALONE))

    @property
    def summary(self) -> Path:
        """The file of the summary."""
        return self.folder / "summary.json"

    def work(self, shard: str) -> None:
        """Make a shard's result, unless it is there."""
        path = self.result(shard)
        if path.is_file():
            return
        given = dict(self.shards[shard])
        if needed := self.needed(shard):
            given[RESULTS] = [read_json(other)["result"] for other in needed]
        start = _cpu_s()
        result = self.study.run_shard(given, self.settings)
        write_json(path, {"shard": self.shards[shard], "cpu_s": _cpu_s() - start, "result": result})

    def work_on_all(self, progress: Callable[[int, int], None], cores: int = 1) -> None:
        """Make all results; `progress` is told how many of how many are there.

        Shards that measure no times and need no others run side by side on the cores; the others follow, in order.
        """
        beside = [name for name in self.shards if cores > 1 and not (self.alone(name) or self.needed(name))]
        apart = [name for name in self.shards if name not in beside]
        progress(0, len(self.shards))
        if beside:
            # A process for each, as they start programs and wait for these; a fork has what is loaded.
            with ProcessPoolExecutor(cores, get_context("fork")) as pool:
                for done, _ in enumerate(pool.map(partial(_work_on, self.folder), beside), start=1):
                    progress(done, len(self.shards))
        for done, shard in enumerate(apart, start=len(beside) + 1):
            self.work(shard)
            progress(done, len(self.shards))

    def summarise(self) -> Evaluation:
        """Write and return the summary: JSON, text and one picture for each plot."""
        made = [read_json(self.result(shard)) for shard in self.shards]
        results: list[Any] = [each["result"] for each in made]
        found = replace(
            self.study.summarise(results, self.settings),
            settings=self.settings.to_json(),
            cpu_s=sum(each["cpu_s"] for each in made),
        )
        write_json(self.summary, found.to_json())
        write_text(self.folder / "summary.txt", text_of(found))
        for plot in found.plots:
            draw(plot, self.folder / f"{plot.name}.svg")
        return found


def _cpu_s() -> float:
    """Return the CPU time of this process and of those that it started and waited for, in s."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _work_on(folder: Path, shard: str) -> None:
    """Make a shard's result in a process of its own."""
    Run.open(folder).work(shard)
