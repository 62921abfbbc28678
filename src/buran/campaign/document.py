"""Reading a campaign file as it counts: with what it includes, and the keys that one word stands for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

from buran.campaign.mistakes import CampaignError, KeyPath, Mistake, missing
from buran.campaign.yaml_document import YamlDocument, read_yaml
from buran.features import FEATURES
from buran.files import JsonObject

INCLUDE = "include"
INSTRUMENTATION = "instrumentation"
_STANDS_FOR: Mapping[str, JsonObject] = {
    "all": {"goal": "models", "refinement": {"enabled": True, "start": "everything", "pilot": False}},
    "none": {"backend": "command"},
}
"""What the words of `instrumentation` stand for; `auto` is what a campaign does without it."""


def read_campaign_file(path: Path) -> YamlDocument:
    """Read a campaign file, and what it includes below its own keys.

    Raises
    ------
    CampaignError
        A file is no YAML or is missing, or includes itself.
    """
    document = with_included(path)
    for feature in FEATURES:
        document = document if feature.base is None else feature.base(document)
    return _instrumentation_written_out(document)


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


def _instrumentation_written_out(document: YamlDocument) -> YamlDocument:
    """Put the keys that `instrumentation` stands for below those of the file, so that identities know but these."""
    word = document.data.get(INSTRUMENTATION)
    if not isinstance(word, str) or word not in _STANDS_FOR:
        return document  # the shape of the file refuses what is wrong
    keys, own = _STANDS_FOR[word], (INSTRUMENTATION,)
    lines: dict[KeyPath, int] = {(key,): document.line(own) for key in keys}
    base = replace(document, data=keys, lines=lines, placeholders=())
    written = {key: value for key, value in document.data.items() if key != INSTRUMENTATION}
    return over(base, replace(document, data=written))
