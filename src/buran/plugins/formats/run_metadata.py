"""What runs say of themselves: which of it are parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from buran.errors import FormatError
from buran.profiles.extrap_names import parse_folder_name

_WHOLE = re.compile(r"-?\d{1,30}(\.0{1,20})?")
_OF_THE_MACHINE = frozenset(
    {"cluster", "hostlist", "hostname", "launchdate", "launchday", "numhosts", "uid", "walltime"}
)
"""What Adiak collects by itself and no program is given."""
_OF_THE_TOOL = re.compile(
    r"cali\.|opts:|spot\.|starttime\.|TAU_|CRAY_|OMP_|CPU |OS |(pid|tid)$|.*(Timestamp|Time| Size)$"
)
"""Metadata that Caliper and TAU write unasked."""


def of_program(name: str) -> bool:
    """Tell whether metadata of this name may be the program's own."""
    return name not in _OF_THE_MACHINE and not _OF_THE_TOOL.match(name)


def parameters_of(runs: Sequence[Mapping[str, str]], paths: Sequence[Path]) -> list[str]:
    """Return the metadata that are parameters: whole numbers that vary, the first one of those that vary together.

    Parameters
    ----------
    runs
        Metadata of each run, as text; those that are more likely parameters come first.
    paths
        Where each run is from.

    Raises
    ------
    FormatError
        A number that other runs have is missing in one, or several runs have no number at all.
    """
    columns: dict[str, tuple[float, ...]] = {}
    for name in filter(of_program, dict.fromkeys(name for run in runs for name in run)):
        texts = [run.get(name) for run in runs]
        whole = [text is not None and bool(_WHOLE.fullmatch(text)) for text in texts]
        if None in texts and any(whole):
            where = paths[texts.index(None)]
            raise FormatError(f"the run has no {name}", where=where, why="others have it in their metadata")
        if all(whole):
            columns[name] = tuple(float(str(text)) for text in texts)
    varied = {column: name for name, column in reversed(columns.items()) if len(set(column)) > 1}
    if varied or len(runs) == 1:
        return [name for name in columns if name in varied.values()] if varied else list(columns)
    if not columns:
        raise FormatError(
            "the runs do not say what was varied",
            where=paths[0],
            why="no whole number is in their metadata",
            hint="let the program record its parameters with adiak, or cali_set_global_int_byname",
        )
    return list(columns)[-1:]


def point_of_name(path: Path) -> dict[str, str]:
    """Return the whole numbers in a name such as ``tau.p4n100.r1``, as text."""
    try:
        point, _ = parse_folder_name(path.name.removesuffix(".json"))
    except ValueError:
        return {}
    return {name: f"{value:.0f}" for name, value in point.items() if value.is_integer()}


def difference_note(runs: Sequence[Mapping[str, str]], parameters: Sequence[str]) -> str | None:
    """Return a sentence if runs with the same parameters differ in a word of one kind, such as their variant."""
    of_point: dict[tuple[str, ...], Mapping[str, str]] = {}
    for run in runs:
        first = of_point.setdefault(tuple(run[name] for name in parameters), run)
        for name in filter(of_program, first):
            words = sorted({first[name], run.get(name, first[name])})
            if len(words) > 1 and all(re.fullmatch(r"[A-Za-z]\w{0,40}", word) for word in words):
                return f"runs that count as repetitions differ in {name}, such as {' and '.join(words)}"
    return None
