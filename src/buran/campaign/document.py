"""Reading a campaign file as it counts: YAML with the line of every key, what it includes, and short words.

PyYAML follows YAML 1.1, where ``1e3`` is text, ``on`` is true, ``010`` is eight and ``1:30`` is ninety. Here numbers
and truth values are those of YAML 1.2: ``1e3`` is a thousand, only ``true`` and ``false`` are truth values.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

import yaml

from buran.budget import YAML_BYTES, YAML_DEPTH, YAML_VALUES, read_bytes
from buran.campaign.mistakes import CampaignError, KeyPath, Mistake, missing
from buran.errors import FormatError
from buran.features import FEATURES
from buran.files import JsonObject

_BEGIN = "`buran init DIR` writes a campaign file to start from"
LARGEST_WHOLE = 2**53  # whole numbers above it have no exact floating-point spelling

_TAG = "tag:yaml.org,2002:"
_RULES = (
    ("null", r"~|null|Null|NULL|", [*"~nN", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", [*"-+0123456789"]),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        [*"-+0123456789."],
    ),
)


_PLACEHOLDER = re.compile(r"(?:^|\s)#\s*<-\s*(.*)")


class _Loader(yaml.SafeLoader):
    """Composes nodes; their values are made by `_Reading`."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _name, _pattern, _first in _RULES:
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(rf"(?:{_pattern})\Z"), _first)


@dataclass(frozen=True)
class YamlDocument:
    """A YAML file's content and the line of each key.

    Attributes
    ----------
    path
        The file.
    data
        The content; sequences are tuples, whole numbers are ``int``.
    lines
        First line, from 1, of every key path.
    placeholders
        File and line of each value that is still to be filled in, and what its comment says.
    files
        Files of key paths that are not this file's own.
    """

    path: Path
    data: Mapping[str, object]
    lines: Mapping[KeyPath, int]
    placeholders: tuple[tuple[Path, int, str], ...] = ()
    files: Mapping[KeyPath, Path] = field(default_factory=dict)

    def line(self, path: KeyPath) -> int:
        """Return the line of a key, or of the nearest key above it."""
        return self.lines.get(self._nearest(path), 0)

    def _nearest(self, path: KeyPath) -> KeyPath:
        while path and path not in self.lines:
            path = path[:-1]
        return path

    def located(self, mistake: Mistake) -> Mistake:
        """Return the mistake with its file and line, unless it has them."""
        if mistake.file is not None:
            return mistake
        file = self.files.get(self._nearest(mistake.path), self.path)
        return Mistake(mistake.path, mistake.what, mistake.why, mistake.hint, file, self.line(mistake.path))


def read_yaml(path: Path) -> YamlDocument:
    """Read a YAML file whose top is a mapping.

    Raises
    ------
    CampaignError
        If it cannot be read, is not YAML, is empty, has a key twice, or uses what campaign files do not (tags, merge
        keys).
    """
    try:
        text = read_bytes(path, YAML_BYTES).decode("utf-8-sig")
        reading = _Reading(path)
        data = reading.top(_composed(text))
    except (OSError, UnicodeDecodeError, FormatError, yaml.YAMLError) as error:
        raise CampaignError([_unreadable(path, error)]) from None
    if reading.mistakes:
        raise CampaignError(reading.mistakes)
    matches = enumerate(map(_PLACEHOLDER.search, text.splitlines()), 1)
    marked = tuple((path, line, match[1]) for line, match in matches if match)
    return YamlDocument(path, data, reading.lines, marked)


def _composed(text: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=_Loader)
    except RecursionError:
        YAML_DEPTH.check(math.inf, None)
        raise


def _unreadable(path: Path, error: Exception) -> Mistake:
    """Say why a file is not read at all."""
    match error:
        case FileNotFoundError():
            return Mistake((), "there is no such file", hint=_BEGIN, file=path)
        case IsADirectoryError():
            file = path / "campaign.yaml"
            hint = f"name a file in it{f': {file}' if file.is_file() else ''}"
            return Mistake((), "this is a folder", hint=hint, file=path)
        case OSError():
            return Mistake((), "the file cannot be read", error.strerror, file=path)
        case UnicodeDecodeError():
            if b"\0" in error.object:
                why, hint = "it holds bytes that no text has", "save it as text in UTF-8"
                return Mistake((), "this is no text file", why, hint, path)
            why = f"byte 0x{error.object[error.start]:02x} at position {error.start} belongs to another encoding"
            hint = "save it as UTF-8, for example with: iconv -f latin1 -t utf-8"
            return Mistake((), "the file is not UTF-8", why, hint, path, error.object.count(b"\n", 0, error.start) + 1)
        case FormatError():
            return Mistake((), error.what, error.why, error.hint, path)
        case yaml.MarkedYAMLError():
            mark = error.problem_mark or error.context_mark
            why = ", ".join(part for part in (error.context, error.problem) if part)
            hint = "indent with spaces, not tabs; put commands and expressions in quotes; close quotes and brackets"
            return Mistake((), "the file is not valid YAML", why, hint, path, 0 if mark is None else mark.line + 1)
        case _:
            return Mistake((), "the file is not valid YAML", str(error), "remove what is no text", path)


@dataclass
class _Reading:
    """Turns nodes into values, noting lines and mistakes on the way."""

    path: Path
    values: int = 0
    lines: dict[KeyPath, int] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)

    def note(self, node: yaml.Node, path: KeyPath, what: str, why: str | None = None, hint: str | None = None) -> None:
        self.mistakes.append(Mistake(path, what, why, hint, self.path, _line(node)))

    def top(self, node: yaml.Node | None) -> dict[str, object]:
        if node is None or (isinstance(node, yaml.ScalarNode) and node.tag == _TAG + "null"):
            self.mistakes.append(Mistake((), "the file is empty", hint=_BEGIN, file=self.path))
        elif not isinstance(node, yaml.MappingNode):
            self.note(node, (), "the file holds no keys", "a file has keys at its top, as in `name: my-campaign`")
        else:
            return self.mapping(node, ())
        return {}

    def value(self, node: yaml.Node, path: KeyPath) -> object:
        self.values += 1
        YAML_DEPTH.check(len(path), self.path)  # with references followed
        YAML_VALUES.check(self.values, self.path)
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            self.lines.update({(*path, i): _line(item) for i, item in enumerate(node.value)})
            return tuple(self.value(item, (*path, i)) for i, item in enumerate(node.value))
        return self.scalar(node, path)

    def mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, object]:
        if node.tag != _TAG + "map":
            self.refuse_tag(node, path)
        out: dict[str, object] = {}
        for key, item in node.value:
            location = (*path, str(key.value))
            if not isinstance(key, yaml.ScalarNode):
                self.note(key, path, "a key must be a word", hint="write it as `key: value`")
            elif key.value == "<<":
                self.note(key, location, "merge keys are not supported", hint="write the keys out")
            elif key.value in out:
                why = f"it stands on line {self.lines[location]} and again on line {_line(key)}"
                self.note(key, location, f"the key {key.value!r} stands twice", why, "keep one of them")
            else:
                self.lines[location] = _line(key)
                out[key.value] = self.value(item, location)
        return out

    def scalar(self, node: yaml.Node, path: KeyPath) -> object:
        kind, text = node.tag.removeprefix(_TAG), node.value
        if kind == "str":
            return text
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() == "true"
        if kind in ("int", "float") and isinstance(node, yaml.ScalarNode) and node.style is None:
            return _number(text)
        self.refuse_tag(node, path)
        return None

    def refuse_tag(self, node: yaml.Node, path: KeyPath) -> None:
        self.note(node, path, f"the tag {node.tag.replace(_TAG, '!!')} is not supported", hint="leave it out")


def _number(text: str) -> int | float:
    if len(text) > 300:
        return math.inf  # refused later, like every number that is not finite
    try:
        return int(text)
    except ValueError:
        number = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        return int(number) if number.is_integer() and abs(number) <= LARGEST_WHOLE else number


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


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
