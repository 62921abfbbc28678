"""Reading YAML with the line of every key, by the number and truth rules of YAML 1.2.

PyYAML itself follows YAML 1.1, where ``1e3`` is text, ``on`` is true, ``010`` is eight and ``1:30`` is
ninety. Here ``1e3`` is a thousand, only ``true`` and ``false`` are truth values; the other two are text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from buran.budget import YAML_BYTES, YAML_DEPTH, Limit, bounded, read_bytes
from buran.campaign.mistakes import CampaignError, KeyPath, Mistake
from buran.errors import FormatError

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


class _Loader(bounded(yaml.SafeLoader)):  # type: ignore[misc]
    """Composes nodes; its values are made by `_Reading`."""

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
    notes
        Names of earlier versions that it has.
    """

    path: Path
    data: Mapping[str, object]
    lines: Mapping[KeyPath, int]
    placeholders: tuple[tuple[Path, int, str], ...] = ()
    files: Mapping[KeyPath, Path] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

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


def read_text(path: Path, limit: Limit) -> str:
    """Read a UTF-8 file; anything that stands in the way is a mistake.

    Raises
    ------
    CampaignError
        If the file is missing, unreadable, too large or not UTF-8.
    """

    def refuse(what: str, why: str | None = None, hint: str | None = None, line: int = 0) -> CampaignError:
        return CampaignError([Mistake((), what, why, hint, path, line)])

    try:
        raw = read_bytes(path, limit)
    except FileNotFoundError:
        raise refuse("there is no such file", hint="`buran init DIR` writes a campaign file to start from") from None
    except IsADirectoryError:
        file = path / "campaign.yaml"
        raise refuse("this is a folder", hint=f"name a file in it{f': {file}' if file.is_file() else ''}") from None
    except OSError as error:
        raise refuse("the file cannot be read", error.strerror) from None
    except FormatError as error:
        raise _too_large(path, error) from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if b"\0" in raw:
            hint = "save it as text in UTF-8; `buran init DIR` writes a campaign file to start from"
            raise refuse("this is no text file", "it holds bytes that no text has", hint) from None
        raise refuse(
            "the file is not UTF-8",
            f"byte 0x{error.object[error.start]:02x} at position {error.start} belongs to another encoding",
            "save it as UTF-8, for example with: iconv -f latin1 -t utf-8",
            error.object.count(b"\n", 0, error.start) + 1,
        ) from None


def read_yaml(path: Path) -> YamlDocument:
    """Read a YAML file whose top is a mapping.

    Raises
    ------
    CampaignError
        If it is not YAML, is empty, has a key twice, or uses what campaign files do not (tags, merge keys).
    """
    text = read_text(path, YAML_BYTES)
    try:
        node = yaml.compose(text, Loader=_Loader)
    except FormatError as error:
        raise _too_large(path, error) from None
    except yaml.MarkedYAMLError as error:
        raise CampaignError([_syntax_mistake(path, text, error)]) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, int(error.position)) + 1
        what = f"a character that YAML does not allow, code {int(error.character):#x}"
        raise CampaignError([Mistake((), what, hint="remove it", file=path, line=line)]) from None
    if node is None or (isinstance(node, yaml.ScalarNode) and node.tag == _TAG + "null"):
        what, hint = "the file is empty", "`buran init DIR` writes a campaign file to start from"
        raise CampaignError([Mistake((), what, hint=hint, file=path)])
    if not isinstance(node, yaml.MappingNode):
        why = "a campaign file has keys at its top, as in `name: my-campaign`"
        raise CampaignError([Mistake((), "the file holds no keys", why, file=path, line=_line(node))])
    reading = _Reading(path)
    try:
        data = reading.mapping(node, ())
    except FormatError as error:
        raise _too_large(path, error) from None
    if reading.mistakes:
        raise CampaignError(reading.mistakes)
    matches = enumerate(map(_PLACEHOLDER.search, text.splitlines()), 1)
    marked = tuple((path, line, match[1]) for line, match in matches if match)
    return YamlDocument(path, data, reading.lines, marked)


@dataclass
class _Reading:
    """Turns nodes into values, noting lines and mistakes on the way."""

    path: Path
    lines: dict[KeyPath, int] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)

    def note(self, node: yaml.Node, path: KeyPath, what: str, why: str | None = None, hint: str | None = None) -> None:
        self.mistakes.append(Mistake(path, what, why, hint, self.path, _line(node)))

    def value(self, node: yaml.Node, path: KeyPath) -> object:
        YAML_DEPTH.check(len(path), self.path)  # with aliases followed
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            for i, item in enumerate(node.value):
                self.lines[(*path, i)] = _line(item)
            return tuple(self.value(item, (*path, i)) for i, item in enumerate(node.value))
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, path)
        self.refuse_tag(node, path)
        return None

    def mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, object]:
        if node.tag != _TAG + "map":
            self.refuse_tag(node, path)
        first: dict[str, int] = {}
        out: dict[str, object] = {}
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.note(key, path, "a key must be a word", hint="write it as `key: value`")
                continue
            location = (*path, key.value)
            if key.value == "<<":
                self.note(key, location, "merge keys are not supported", hint="write the keys out")
            elif key.value in first:
                why = f"it stands on line {first[key.value]} and again on line {_line(key)}"
                self.note(key, location, f"the key {key.value!r} stands twice", why, "keep one of them")
            else:
                first[key.value] = self.lines[location] = _line(key)
                out[key.value] = self.value(item, location)
        return out

    def scalar(self, node: yaml.ScalarNode, path: KeyPath) -> object:
        kind, text = node.tag.removeprefix(_TAG), node.value
        if kind == "str":
            return text
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() == "true"
        if kind in ("int", "float") and node.style is None:
            return _number(text)
        self.refuse_tag(node, path)
        return None

    def refuse_tag(self, node: yaml.Node, path: KeyPath) -> None:
        self.note(node, path, f"the tag {node.tag.replace(_TAG, '!!')} is not supported", hint="leave it out")


def _too_large(path: Path, error: FormatError) -> CampaignError:
    return CampaignError([Mistake((), error.what, error.why, error.hint, path)])


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


def _syntax_mistake(path: Path, text: str, error: yaml.MarkedYAMLError) -> Mistake:
    mark = error.problem_mark or error.context_mark
    line = 0 if mark is None else mark.line + 1
    rows = text.splitlines()
    row = rows[line - 1] if 0 < line <= len(rows) else ""
    hint = None
    if "\t" in row:
        hint = "indent with spaces: YAML does not allow tabs there"
    elif "{" in row or "%" in row or "*" in row or ": " in row.partition(":")[2]:
        hint = "put commands and expressions in quotes"
    elif "<stream end>" in str(error.problem):
        hint = "close what is open above: a bracket, a brace or a quote"
    elif "end of stream" in str(error.problem) and error.context_mark is not None:
        hint = f"close the quote that line {error.context_mark.line + 1} opens"
    why = ", ".join(part for part in (error.context, error.problem) if part)
    return Mistake((), "the file is not valid YAML", why, hint, path, line)
