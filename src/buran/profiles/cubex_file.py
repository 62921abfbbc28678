"""Opening cubex files with pycubexr: only what is whole, of a format that is read, and not far larger unpacked."""

from __future__ import annotations

import sys
import tarfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from gzip import GzipFile
from pathlib import Path
from typing import Any, BinaryIO, cast
from xml.etree import ElementTree

from pycubexr import CubexParser
from pycubexr.classes.cnode import CNode
from pycubexr.classes.metric import MetricType
from pycubexr.utils.custom_tarinfo import TarInfoWithoutCheck

from buran.budget import DEPTH, VARIABLE, check_memory
from buran.errors import FormatError

DERIVED = ("POSTDERIVED", "PREDERIVED_EXCLUSIVE", "PREDERIVED_INCLUSIVE", "SIMPLE")
for _kind in DERIVED:  # pycubexr knows the two kinds with values alone, and refuses files with others
    setattr(MetricType, _kind, _kind)
_BLOCK = 512
_FRAMES = 1000  # of the callers of a reader
_BYTES_OF_XML = 20  # of memory for each byte of XML that is parsed


def _all_children(node: CNode, with_self: bool = True) -> list[CNode]:
    """Return the call paths below one, callers first; pycubexr's own takes time with the square of the depth."""
    nodes, stack = [], [node] if with_self else node.get_children()[::-1]
    while stack:
        nodes.append(stack.pop())
        stack.extend(reversed(nodes[-1].get_children()))
    return nodes


CNode.get_all_children = _all_children


class CorruptProfile(Exception):
    """Why the content cannot be trusted; becomes the reason of a `FormatError`."""


class _OtherFormat(Exception):
    """Which format a file has, and what to do; becomes the reason and the hint of a `FormatError`."""


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn every failure of reading into a `FormatError` that names the file and the reason."""
    try:
        with warnings.catch_warnings():
            # pycubexr warns about the wrong checksums that CubeWriter 4.8 wrote; the sizes are checked here.
            warnings.simplefilter("ignore")
            yield
    except FormatError:  # it asks for too much
        raise
    except FileNotFoundError:
        why, hint = "there is no such file", "check the path"
    except CorruptProfile as error:
        why, hint = str(error), "the file is damaged or was not written to its end; measure again"
    except _OtherFormat as error:
        why, hint = error.args
    # pycubexr meets arbitrary bytes with whatever its assertions, the XML parser or struct raise.
    except Exception as error:
        detail = str(error) or type(error).__name__
        why = f"it is no intact cubex file: {detail}"
        hint = "the file is truncated, damaged or of another kind; Score-P and Buran write profile.cubex"
    else:
        return
    raise FormatError("the profile cannot be read", where=path, why=why, hint=hint)


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Allow pycubexr's recursion over the call tree to go deeper than Python's default."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, DEPTH.allowed + _FRAMES))
    try:
        yield
    except RecursionError:
        why = f"call paths are nested more than {DEPTH.allowed:,} deep, which is the limit"
        raise _OtherFormat(why, f"if the program recurses so deep, set {VARIABLE}=5 in the environment") from None
    finally:
        sys.setrecursionlimit(before)


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Yield pycubexr's parser of a file; whatever goes wrong is a `FormatError` with the reason and what to do."""
    with _explained(path), _deep_recursion():
        _check_format(path)
        _check_sizes(path)
        parser = CubexParser(path)
        try:
            try:
                entered = parser.__enter__()
            except (AssertionError, TypeError):
                _check_structure(parser._cubex_file)
                raise
            yield entered
        finally:
            # Its own exit is not reached if entering fails, and then the file would stay open.
            archive = getattr(parser, "_cubex_file", None)
            if archive is not None:
                archive.close()


def _check_sizes(path: Path) -> None:
    """Refuse members that would unpack to far more than the file has, before anything is unpacked."""
    size = path.stat().st_size
    try:
        archive = tarfile.open(path, "r:")  # noqa: SIM115 (closed below)
    except tarfile.ReadError:
        archive = tarfile.open(path, "r:", tarinfo=TarInfoWithoutCheck)  # noqa: SIM115
    with archive:
        for member in archive:
            if member.issparse() or member.size > size:
                raise CorruptProfile(f"{member.name} claims to be larger than the file")
        anchor = archive.extractfile("anchor.xml")
        assert anchor is not None
        is_packed = anchor.read(2) == b"\x1f\x8b"
        anchor.seek(0)
        unpacked = 0
        with GzipFile(fileobj=anchor) if is_packed else anchor as xml:
            while chunk := xml.read(1 << 20):
                unpacked += len(chunk)
                check_memory(_BYTES_OF_XML * unpacked, size, path)


def _check_structure(archive: tarfile.TarFile) -> None:
    """Say what pycubexr only asserts."""
    anchor = ElementTree.parse(cast(BinaryIO, archive.extractfile("anchor.xml")))
    trees = len(anchor.findall("program/cnode"))
    if trees > 1:
        raise _OtherFormat(
            f"it has {trees} call trees: ranks of different programs, or with different arguments, each have one",
            "start all ranks with the same command line",
        )


def check_members(archive: tarfile.TarFile) -> set[int]:
    """Return the numbers of the metrics that have data, if the archive is whole.

    Python's tarfile takes a damaged header in the middle for the end of the archive.
    """
    members = archive.getmembers()
    names = {member.name for member in members}
    if len(names) != len(members):
        raise CorruptProfile("a member of the archive is there twice")
    end = max((member.offset_data + -(-member.size // _BLOCK) * _BLOCK for member in members), default=0)
    stream = cast(BinaryIO, archive.fileobj)
    stream.seek(end)
    while chunk := stream.read(1 << 20):
        if chunk.strip(b"\0"):
            raise CorruptProfile("there is data behind what looks like the end of the archive")
    numbers: dict[str, set[int]] = {"data": set(), "index": set()}
    for name in names:
        stem, _, kind = name.partition(".")
        if kind in numbers:
            numbers[kind].add(int(stem))
    for number in numbers["data"] ^ numbers["index"]:
        raise CorruptProfile(f"metric {number} has only one of {number}.index and {number}.data")
    return numbers["data"]


def _check_format(path: Path) -> None:
    """Refuse what is known to be something else, by name."""
    with path.open("rb") as file:
        head = file.read(4096)
    if head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ")):
        raise _OtherFormat("it is compressed as a whole", "unpack it (gunzip, bunzip2, unxz)")
    if head.startswith((b"OTF2", b"\x02OTF2")) or path.suffix in (".otf2", ".evt", ".def"):
        raise _OtherFormat(
            "it is part of an OTF2 trace, which is not read",
            "let Score-P write a profile: SCOREP_ENABLE_PROFILING=true SCOREP_ENABLE_TRACING=false",
        )
