"""What existing measurements add to campaigns; heavier modules are imported where they are used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from buran.campaign.document import below
from buran.campaign.identity import requested
from buran.campaign.mistakes import Mistake, no_parameter
from buran.features import Feature, Key, late
from buran.plugins.imports.keys import KEY, MeasurementsKeys, measurements_of

if TYPE_CHECKING:
    from buran.campaign.config import Campaign
    from buran.campaign.shape import CampaignFile


def _mistakes(config: CampaignFile, environment: str) -> Iterator[Mistake]:
    """Check what is said of measurements; the files themselves are looked at later."""
    parameters = tuple(config.parameters)
    entries = measurements_of(config)
    for i, entry in enumerate(entries):
        path = (KEY, i)
        if entry.path in [other.path for other in entries[:i]]:
            yield Mistake((*path, "path"), f"{entry.path!r} stands twice", hint="leave one of them out")
        for name, parameter in entry.names.items():
            if parameter not in parameters:
                yield no_parameter((*path, "names", name), parameter, parameters)
        for name in entry.fixed:
            if name not in parameters:
                yield no_parameter((*path, "fixed", name), name, parameters)
            elif name in entry.names.values():
                what = f"{name!r} has a fixed value and a name in the runs"
                yield Mistake((*path, "fixed", name), what, hint="keep one of them")


def _identity(campaign: Campaign) -> Mapping[str, object]:
    """Return the entries, and what the files are."""
    entries = measurements_of(campaign.config)
    return {KEY: [{**requested(entry), "files": _stamps(below(campaign.folder, entry.path))} for entry in entries]}


def _stamps(path: Path) -> list[tuple[str, int, int]]:
    """Return name, size and time of a file, or of the profiles in a folder of runs; nothing where there is none."""
    profiles = (*path.glob("*/*.cubex"), *path.glob("*.cali"), *path.glob("*/*.cali"))
    files = sorted(profiles) if path.is_dir() else [path]
    stats = [(file.relative_to(path.parent).as_posix(), file.stat()) for file in files if file.is_file()]
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]


FEATURE = Feature(
    KEY,
    Key(
        tuple[MeasurementsKeys, ...],
        (),
        "Measurements that exist already, of the same program, machine and measurement system: models of times read "
        "them, too, and points that they have are not timed here.",
    ),
    mistakes=_mistakes,
    identity=_identity,
    foreign=late("buran.plugins.imports.table:measured_elsewhere"),
    notes=late("buran.plugins.imports.table:notes"),
)
