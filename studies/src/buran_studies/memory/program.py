"""A program with one size, which is modelled at small sizes and judged at large ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from buran.files import Stored
from buran_studies.campaign.public import checkouts
from buran_studies.evaluation.study import Settings

FILE = "program.json"
"""Of a folder that is given with ``--data``: a program instead of those that the study has."""


@dataclass(frozen=True)
class Program(Stored):
    """A program and its sizes.

    Attributes
    ----------
    source, build, binary, arguments
        ``{n}`` stands for the size, ``{total}`` for that of all ranks together, ``{folder}`` for the source's; that is
        among the checkouts, or an absolute path.
    small, large
        Values of n that are fitted, and those that are predicted; both in ascending order.
    """

    kind_of_file: ClassVar[str] = "program of a study"

    source: str
    build: str
    binary: str
    arguments: str
    small: tuple[int, ...]
    large: tuple[int, ...]

    @property
    def folder(self) -> Path:
        """Where the source is."""
        return checkouts() / self.source

    def words(self, n: int, ranks: int = 1) -> list[str]:
        """Return the arguments for a size."""
        return self.arguments.format(n=n, total=n * ranks, folder=self.folder).split()


def given(settings: Settings) -> dict[str, Program]:
    """Return the program that a user has brought, by the name of its binary; empty without."""
    if settings.data is None or not (settings.data_folder() / FILE).is_file():
        return {}
    found = Program.read(settings.data_folder() / FILE)
    return {found.binary: found}
