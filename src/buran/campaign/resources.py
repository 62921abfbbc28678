"""What a run needs: resources as functions of its point, and the files that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from buran.campaign.document import below
from buran.campaign.expressions import Expression, ExpressionError
from buran.campaign.point import Value
from buran.campaign.sections import InputKeys
from buran.errors import ConfigError
from buran.files import digest, file_sha256

AUTO = "auto"
"""As `resources.nodes`: they follow from ranks, threads and the cores of the partition's nodes."""

JOB_S = 600.0
"""Seconds that a job is expected to take with `points_per_job: auto`: long beside its start, short beside a day."""


_DURATIONS = ("time_limit", "expected_time")
"""The others are whole numbers."""


@dataclass(frozen=True)
class Formulas:
    """The keys of `resources` that depend on the point; None where the file does not give one."""

    ranks: Expression
    threads: Expression
    time_limit: Expression
    nodes: Expression | None = None
    expected_time: Expression | None = None
    tasks_per_node: Expression | None = None
    memory_mb: Expression | None = None

    def count(self, key: str, point: Mapping[str, Value]) -> int | None:
        """Return a resource that is counted; None where the file does not give it. Raises as `count_of` does."""
        formula: Expression | None = getattr(self, key)
        return None if formula is None else count_of(formula, point, key)


@dataclass(frozen=True)
class NodeKind:
    """What each node of a partition has.

    Attributes
    ----------
    cpus
        What is charged: hardware threads.
    """

    cores: int
    cpus: int


def count_of(formula: Expression, point: Mapping[str, Value], key: str) -> int:
    """Return a resource that is counted.

    Raises
    ------
    ConfigError
        It cannot be computed there, or is no whole number of at least 1.
    """
    value = _value_of(formula, point, key)
    if isinstance(value, float) or value < 1:
        why, hint = "must be a whole number, at least 1", "round with ceil(...), or divide with //"
        raise _refused(formula, point, key, why, hint)
    return value


def seconds_of(formula: Expression, point: Mapping[str, Value], key: str) -> float:
    """Return a resource that is a time.

    Raises
    ------
    ConfigError
        It cannot be computed there, or is not above zero.
    """
    value = float(_value_of(formula, point, key))
    if value <= 0:
        raise _refused(formula, point, key, "must be greater than zero, in seconds")
    return value


def check_resource(formulas: Formulas, key: str, point: Mapping[str, Value]) -> None:
    """Check one resource at a point, and that the ranks fill the nodes as it says.

    Raises
    ------
    ConfigError
        It is not allowed there.
    """
    formula: Expression = getattr(formulas, key)
    if key in _DURATIONS:
        seconds_of(formula, point, key)
        return
    number = count_of(formula, point, key)
    try:
        ranks = formulas.ranks(point)
        nodes = -(-ranks // number) if formulas.nodes is None else formulas.nodes(point)
    except ExpressionError:  # refused under the key of its own
        return
    if key == "nodes" and nodes > ranks:
        raise _refused(formula, point, key, f"there are only {ranks} ranks, and every node needs one")
    if key == "tasks_per_node" and not number * (nodes - 1) < ranks <= number * nodes:
        why = f"{ranks} ranks do not fill {nodes} nodes that way"
        raise _refused(formula, point, key, why, "ranks are tasks_per_node times nodes")


def _value_of(formula: Expression, point: Mapping[str, Value], key: str) -> Value:
    try:
        return formula(point)
    except ExpressionError as error:
        raise ConfigError(error.what, where=f"resources.{key}", hint=error.hint) from None


def _refused(
    formula: Expression, point: Mapping[str, Value], key: str, why: str, hint: str | None = None
) -> ConfigError:
    used = ", ".join(f"{name} = {point[name]}" for name in sorted(formula.names))
    what = f"{formula.text!r} gives {formula(point)}" + (f" at {used}" if used else "")
    return ConfigError(what, where=f"resources.{key}", why=why, hint=hint)


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
