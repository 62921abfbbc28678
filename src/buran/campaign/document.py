"""Reading a campaign file as it counts: with what it includes, keys of earlier versions as today's, no short forms."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

from buran.campaign.mistakes import ANY, CampaignError, KeyPath, Mistake, missing, spelled
from buran.campaign.sections import ProgramKeys
from buran.campaign.yaml_document import YamlDocument, read_yaml
from buran.features import FEATURES
from buran.files import JsonObject

INCLUDE = "include"
RENAMED: Mapping[KeyPath, KeyPath] = {
    ("refinement", "target"): ("target",),
    ("resources", "time_limit_s"): ("resources", "time_limit"),
    ("resources", "expected_s"): ("resources", "expected_time"),
    ("refinement", "threshold_s"): ("refinement", "threshold"),
    ("command", "figures_of_merit"): ("figures",),
    ("environments", ANY, "machine", "run_limit_s"): ("environments", ANY, "machine", "run_limit"),
}
"""Keys of earlier versions, by their paths then, and now; `ANY` stands for each name in its place."""
INSTRUMENTATION = "instrumentation"
_STANDS_FOR: Mapping[str, Mapping[KeyPath, object]] = {
    "all": {
        ("goal",): "models",
        ("refinement", "enabled"): True,
        ("refinement", "start"): "everything",
        ("refinement", "pilot"): False,
    },
    "none": {("backend",): "command"},
}
"""What the words of `instrumentation` stand for; `auto` is what a campaign does without it."""


def read_campaign_file(path: Path) -> YamlDocument:
    """Read a campaign file, what it includes below its own keys, and keys of earlier versions by today's names.

    Raises
    ------
    CampaignError
        A file is no YAML or is missing, includes itself, has a key by two names, or contradicts its `instrumentation`.
    """
    document = with_included(path)
    for feature in FEATURES:
        document = document if feature.base is None else feature.base(document)
    return _instrumentation_written_out(_with_new_names(document))


def with_included(path: Path) -> YamlDocument:
    """Read a file over those that it includes; raise `CampaignError` as `read_campaign_file` does."""
    return _with_included(path, (Path(os.path.normpath(path.absolute())),))


def below(folder: Path, text: str) -> Path:
    """Return a path written in a campaign file, which begins at the file's folder, absolute and plain."""
    return Path(os.path.normpath(folder / Path(text).expanduser()))


def _with_included(path: Path, chain: tuple[Path, ...]) -> YamlDocument:
    """Read a file over those that it includes; `chain` leads to it, by absolute paths."""
    document = read_yaml(path)
    named = document.data.get(INCLUDE, ())
    names = (named,) if isinstance(named, str) else named
    if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
        return document  # the shape of the file refuses it
    bases = []
    for name in names:
        base = below(chain[-1].parent, name)
        if base in chain:
            what, hint = f"the file {name!r} includes itself", "take the name out of one of these files"
            why = " includes ".join(each.name for each in (*chain[chain.index(base) :], base))
            raise CampaignError([document.located(Mistake((INCLUDE,), what, why, hint))])
        if not base.is_file():
            why, hint = f"{base} is {missing(base)}", "name a file; a path counts from the file that it stands in"
            raise CampaignError([document.located(Mistake((INCLUDE,), f"{name!r} cannot be included", why, hint))])
        bases.append(_with_included(base, (*chain, base)))
    return reduce(over, [*bases, document])


def over(base: YamlDocument, document: YamlDocument) -> YamlDocument:
    """Put a document's keys over a base's: mappings are merged, all other values are the document's."""
    files = {**dict.fromkeys(base.lines, base.path), **base.files}
    own = {**dict.fromkeys(document.lines, document.path), **document.files}
    return replace(
        document,
        data=_merged(base.data, document.data),
        lines={**base.lines, **document.lines},
        files={**files, **own},
        placeholders=(*base.placeholders, *document.placeholders),
    )


def _merged(base: JsonObject, over: JsonObject) -> dict[str, Any]:
    both = {
        key: _merged(base[key], over[key])
        for key in base.keys() & over.keys()
        if isinstance(base[key], Mapping) and isinstance(over[key], Mapping)
    }
    return {**base, **over, **both}


def _with_new_names(document: YamlDocument) -> YamlDocument:
    """Move the keys of earlier versions to where they are now, with their lines, and note it."""
    for old, new in _earlier_names(document.data):
        if _has(document.data, new):
            what = f"the keys {spelled(old)} and {spelled(new)} are the same"
            why = f"{spelled(old)} is called {spelled(new)} now; line {document.line(new)} has it"
            raise CampaignError([document.located(Mistake(old, what, why, f"keep {spelled(new)}"))])
        note = f"line {document.line(old)}: the key {spelled(old)} is called {spelled(new)} now"

        def moved(path: KeyPath, old: KeyPath = old, new: KeyPath = new) -> KeyPath:
            return (*new, *path[len(old) :]) if path[: len(old)] == old else path

        document = replace(
            document,
            data=_with(_without(document.data, old), new, _at(document.data, old)),
            lines={moved(path): line for path, line in document.lines.items()},
            files={moved(path): file for path, file in document.files.items()},
            notes=(*document.notes, note),
        )
    return document


def _instrumentation_written_out(document: YamlDocument) -> YamlDocument:
    """Put the keys in the place of `instrumentation` that it stands for, so that identities know but these."""
    word, own = document.data.get(INSTRUMENTATION), (INSTRUMENTATION,)
    keys = _STANDS_FOR.get(word, {}) if isinstance(word, str) else {}
    if not keys or not isinstance(document.data.get("refinement", {}), Mapping):
        return document  # the shape of the file refuses what is wrong
    data = _without(document.data, own)
    for path, value in keys.items():
        if _has(data, path) and _at(data, path) != value:
            what = f"`{INSTRUMENTATION}: {word}` means {spelled(path)}: {str(value).lower()}"
            why = f"line {document.line(path)} has another value, line {document.line(own)} the word"
            hint = f"leave {spelled(path)} out, or write the keys without {INSTRUMENTATION}"
            raise CampaignError([document.located(Mistake(path, what, why, hint))])
        data = _with(data, path, value)
    file = document.files.get(own, document.path)
    return replace(
        document,
        data=data,
        lines={**dict.fromkeys(keys, document.line(own)), **document.lines},
        files={**dict.fromkeys(keys, file), **dict.fromkeys(document.lines, document.path), **document.files},
    )


def _earlier_names(data: JsonObject) -> Iterator[tuple[KeyPath, KeyPath]]:
    """Yield keys of earlier versions that a file has, each with today's name, in the order of moving them."""
    if isinstance(data.get("program"), str):
        yield ("program",), ("simulated",)
    target, parameters = data.get("target"), data.get("parameters")
    if isinstance(target, Mapping):
        keys = ProgramKeys.model_fields.keys() & target.keys()
        if keys - (parameters.keys() if isinstance(parameters, Mapping) else set()):
            yield ("target",), ("program",)
    yield from _renamed(data)


def _renamed(data: JsonObject, *, back: bool = False) -> Iterator[tuple[KeyPath, KeyPath]]:
    """Yield the keys of `RENAMED` that a file has, each with its other name; `back`: today's, with their first."""
    for old, new in RENAMED.items():
        before, after = (new, old) if back else (old, new)
        named = _at(data, before[: before.index(ANY)]) if ANY in before else {ANY: None}
        for name in named if isinstance(named, Mapping) else ():
            current, there = (tuple(name if part == ANY else part for part in path) for path in (before, after))
            if _has(data, current):
                yield current, there


def todays_name(path: KeyPath) -> KeyPath | None:
    """Return what a key of earlier versions is called today; None for one that is none."""
    if path[0] == "target" and path[1:2] and path[1] in ProgramKeys.model_fields:
        return ("program", *path[1:])
    data: Any = None
    for part in reversed(path):
        data = {part: data}
    return next((new for _, new in _renamed(data)), None)


def with_first_names(keys: JsonObject) -> dict[str, Any]:
    """Return keys by their first names, which identities keep, so that measured campaigns are found again."""
    out = dict(keys)
    for new, old in (*_renamed(keys, back=True), (("program",), ("target",))):
        if _has(out, new):
            out = _with(_without(out, new), old, _at(out, new))
    return out


def _at(data: Any, path: KeyPath) -> Any:
    for key in path:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def _has(data: Any, path: KeyPath) -> bool:
    above = _at(data, path[:-1])
    return isinstance(above, Mapping) and path[-1] in above


def _with(data: JsonObject, path: KeyPath, value: Any) -> dict[str, Any]:
    below = value if len(path) == 1 else _with(data.get(str(path[0]), {}), path[1:], value)
    return {**data, str(path[0]): below}


def _without(data: JsonObject, path: KeyPath) -> dict[str, Any]:
    kept = {key: value for key, value in data.items() if key != path[0]}
    return kept if len(path) == 1 else {**kept, str(path[0]): _without(data[str(path[0])], path[1:])}
