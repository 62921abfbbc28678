"""Files and folders that runs read: where they lie, what identifies them, what they are called in a run's folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from buran.campaign.document import below
from buran.campaign.sections import InputKeys
from buran.files import digest, file_sha256

BUILD = "{build}"
"""Begins paths in the build folder."""


@dataclass(frozen=True)
class Input:
    """A file or folder that runs read.

    Attributes
    ----------
    path
        Absolute, or relative to the build folder.
    name
        In the run's folder; ``.`` for what is in a folder.
    link
        Whether runs get a symbolic link.
    fill
        Whether a point's values are put into its text.
    """

    path: Path
    name: str
    link: bool = False
    fill: bool = False

    @classmethod
    def of(cls, written: str | InputKeys, folder: Path) -> Input:
        """Return an input as a campaign file in `folder` names it."""
        keys = written if isinstance(written, InputKeys) else InputKeys(path=written)
        in_build = keys.path == BUILD or keys.path.startswith(f"{BUILD}/")
        path = Path(keys.path[len(BUILD) :].strip("/") or ".") if in_build else below(folder, keys.path)
        own = "." if path.name in ("", "..") else path.name
        return cls(path, keys.name or own, keys.link, keys.fill)

    def files(self, build_folder: Path) -> Iterator[tuple[Path, Path]]:
        """Yield each of its files, and its place in the run's folder.

        Raises
        ------
        FileNotFoundError
            There is none.
        """
        path = build_folder / self.path
        if not path.exists():
            raise FileNotFoundError(2, "no such file or folder (program.inputs)", str(path))
        location = Path(self.name)
        for file in sorted(path.rglob("*")) if path.is_dir() else (path,):
            if file.is_file():
                yield file, location / file.relative_to(path) if path.is_dir() else location

    @property
    def content(self) -> str:
        """What identifies it for a run; that of the build's own files is in the build."""
        if not self.path.is_absolute():
            return ""
        return digest([(str(location), file_sha256(file)) for file, location in self.files(Path())])
