"""What the processors of this machine consume, by their counters, which Linux shows as power zones.

Of the powercap interface (Linux, Documentation/power/powercap) those zones count that RAPL has for packages and their
memory. A package contains its cores; memory has a counter of its own. What else a node consumes is in neither.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from buran.plugins.energy.consumption import Consumption

POWERCAP = "powercap"
"""Name of the interface, as a source of a run's energy."""
FOLDER_VARIABLE = "BURAN_POWERCAP"
"""Names another folder of power zones than the kernel's."""

_FOLDER = "/sys/class/powercap"
_PACKAGE, _MEMORY = "package-", "dram"
_MOST_W = 4000.0  # of a zone, several times what the largest socket takes: more is no consumption
_SLACK_S = 0.1  # counters are brought up to date every few milliseconds


@dataclass(frozen=True)
class PowerZone:
    """A counter of energy.

    Attributes
    ----------
    name
        As ``package-0``, or ``package-0/dram`` for a part.
    adds
        Whether it is added to the others: what is contained in one is not.
    """

    name: str
    folder: Path
    adds: bool

    def energy_uj(self) -> int:
        """Return what it shows, in microjoules.

        Raises
        ------
        EnergyError
            It cannot be read, or shows no count.
        """
        return _count(self.folder / "energy_uj")

    def range_uj(self) -> int:
        """Return the count after which it begins anew; raise `EnergyError` as `energy_uj`."""
        return _count(self.folder / "max_energy_range_uj")


class EnergyError(Exception):
    """Energy cannot be measured, and why."""


def _count(path: Path) -> int:
    try:
        text = path.read_text().strip()
    except PermissionError:
        raise EnergyError(f"{path} can be read by root alone (chmod a+r permits it)") from None
    except (OSError, UnicodeDecodeError) as error:
        raise EnergyError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}") from None
    if not (text.isascii() and text.isdecimal()):
        raise EnergyError(f"{path} shows {text[:40]!r}, which is no count")
    return int(text)


def power_zones() -> tuple[PowerZone, ...]:
    """Return the zones of this machine's packages and their parts; raise `EnergyError` if there are none."""
    folder = Path(os.environ.get(FOLDER_VARIABLE, _FOLDER))
    found = tuple(_zones(folder))
    if not found:
        why = "has no zone of a processor" if folder.is_dir() else "is not there (a virtual machine has none)"
        raise EnergyError(f"{folder} {why}")
    return found


def _zones(folder: Path) -> Iterator[PowerZone]:
    # Zones of intel-rapl-mmio are the same counters once more, and psys, where there is one, contains the packages.
    for package in sorted(folder.glob("intel-rapl:[0-9]*")):
        name = _name(package)
        if package.name.count(":") != 1 or not name.startswith(_PACKAGE):
            continue
        yield PowerZone(name, package, adds=True)
        for part in sorted(folder.glob(f"{package.name}:*")):
            yield PowerZone(f"{name}/{_name(part)}", part, adds=_name(part) == _MEMORY)


def _name(zone: Path) -> str:
    try:
        return (zone / "name").read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def why_no_powercap() -> str | None:
    """Return why this machine's energy cannot be measured; None if it can."""
    try:
        for zone in power_zones():
            zone.energy_uj(), zone.range_uj()
    except EnergyError as error:
        return str(error)
    return None


class PowercapMeter:
    """Adds up what the zones of this machine count.

    Counters begin anew after some 10 minutes of full load, so they are looked at every few seconds. One that seems to
    have counted what no processor can consume was set back meanwhile: then the energy is not known.
    """

    def __init__(self) -> None:
        self._counted: dict[PowerZone, int] = {}
        self._shown: dict[PowerZone, int] = {}
        self._why = ""
        try:
            self._shown = {zone: zone.energy_uj() for zone in power_zones()}
        except EnergyError as error:
            self._why = str(error)
        self._counted = dict.fromkeys(self._shown, 0)
        self._looked_s = time.monotonic()

    def sample(self) -> None:
        """Look at all zones."""
        if self._why:
            return
        now = time.monotonic()
        most_uj = 1e6 * _MOST_W * (now - self._looked_s + _SLACK_S)
        try:
            for zone, before in self._shown.items():
                shown = zone.energy_uj()
                counted = shown - before if shown >= before else shown - before + zone.range_uj()
                if not 0 <= counted <= most_uj:
                    raise EnergyError(
                        f"the counter {zone.folder}/energy_uj went from {before} to {shown} in "
                        f"{now - self._looked_s:.3g} s: it was set back"
                    )
                self._shown[zone] = shown
                self._counted[zone] += counted
        except EnergyError as error:
            self._why = str(error)
        self._looked_s = now

    def read(self) -> Consumption:
        """Look once more, and add up."""
        self.sample()
        if self._why:
            return Consumption(source=POWERCAP, why_unknown=self._why)
        total = sum(counted for zone, counted in self._counted.items() if zone.adds)
        if total == 0:
            return Consumption(source=POWERCAP, why_unknown=f"the counters of {_FOLDER} stood still")
        parts = {zone.name: counted / 1e6 for zone, counted in self._counted.items()}
        return Consumption(total / 1e6, POWERCAP, parts)
