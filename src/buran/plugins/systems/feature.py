"""The key ``system`` of campaign files, and the files that it names: campaign keys about a machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from buran.campaign.document import YamlDocument, below, over, with_included
from buran.campaign.mistakes import CampaignError, KeyPath, Mistake, did_you_mean, listed, spelled
from buran.campaign.values import OfQueue, Word
from buran.features import Feature, Key

SYSTEM = "system"
_Name = OfQueue[Word | None]
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_KEYS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("include", "environment", "environments", "results", "compiler", "history"), ()),
    "memory": ("machine", "caches_kib", "ways"),
    "resources": (
        *("cluster", "partition", "partitions", "constraint", "account", "qos", "reservation", "exclusive", "extra"),
        *("tasks_per_node", "time_margin", "points_per_job"),
    ),
}
"""What a system file may say: keys of campaign files, and those below them; none for all."""
_KEY = Key(
    _Name,
    None,
    "Name of the machine: keys of its system file count unless this file has them. That is `systems/NAME.yaml` next to "
    "this file, or `buran/systems/NAME.yaml` in `~/.config` (`XDG_CONFIG_HOME`) or a folder of `XDG_CONFIG_DIRS`.",
    examples=["hawk"],
)


def user_folder() -> Path:
    """Return where a user's system files are."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "buran" / "systems"


def folders(near: Path) -> tuple[Path, ...]:
    """Return where system files are looked for, those next to a campaign file first."""
    shared = (os.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    return (near / "systems", user_folder(), *(Path(folder, "buran", "systems") for folder in shared if folder))


def is_name(text: object) -> bool:
    """Tell whether a system may be called so."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def _base(document: YamlDocument) -> YamlDocument:
    """Put a campaign over the system file that it names."""
    name = document.data.get(SYSTEM)
    if not is_name(name):
        return document  # it has none, or the shape of files refuses it
    searched = folders(document.path.absolute().parent)
    path = next((path for folder in searched if (path := folder / f"{name}.yaml").is_file()), None)
    if path is None:
        known = sorted({file.stem for folder in searched for file in folder.glob("*.yaml")})
        hint = did_you_mean(str(name), known) or (f"there are: {listed(known)}" if known else None)
        hint = hint or f"`buran doctor --write-system {name}` proposes one, on that machine"
        why = f"looked in {listed(searched)}"
        raise CampaignError([document.located(Mistake((SYSTEM,), f"there is no system {name!r}", why, hint))])
    own = {key: value for key, value in document.data.items() if key != SYSTEM}
    return over(read_system(path), replace(document, data=own))


def read_system(path: Path) -> YamlDocument:
    """Read a system file.

    Raises
    ------
    CampaignError
        It is no YAML, has keys that are not about a machine, or names variables that are not set.
    """
    document = with_included(path)
    mistakes = [document.located(mistake) for mistake in _foreign(document)]
    if mistakes:
        raise CampaignError(mistakes)
    return _with_paths(document)


def _foreign(document: YamlDocument) -> Iterator[Mistake]:
    """Refuse keys that are not about the machine."""
    for key, value in document.data.items():
        below = value if isinstance(value, dict) and _KEYS.get(key) else {}
        if key == SYSTEM:
            hint = "name a file that both have in common: include: FILE"
            yield Mistake((key,), "a system file cannot name a system", hint=hint)
        elif key not in _KEYS:
            yield _refused((key,), _KEYS)
        for name in below:
            if name not in _KEYS[key]:
                yield _refused((key, name), _KEYS[key])


def _refused(path: KeyPath, allowed: Any) -> Mistake:
    what = f"the key {spelled(path)} does not belong in a system file"
    near = did_you_mean(str(path[-1]), allowed)
    return Mistake(path, what, f"it has keys about a machine: {listed(allowed, 20)}", near or "move it to the campaign")


def _with_paths(document: YamlDocument) -> YamlDocument:
    """Return the document with variables replaced in the folder of results, and the file of the machine found."""
    data = dict(document.data)
    if isinstance(results := data.get("results"), str):
        data["results"] = folder = os.path.expandvars(results)
        if unset := re.search(r"\$\{?(\w+)\}?", folder):
            what, hint = f"the variable {unset[1]} is not set", "set it, or write the folder itself"
            raise CampaignError([document.located(Mistake(("results",), what, hint=hint))])
    memory = data.get("memory")
    if isinstance(memory, dict) and isinstance(memory.get("machine"), str):
        file = document.files.get(("memory", "machine"), document.path)
        data["memory"] = {**memory, "machine": str(below(file.absolute().parent, memory["machine"]))}
    return replace(document, data=data)


FEATURE = Feature(SYSTEM, _KEY, base=_base)
