"""Writing profiles as cubex files, the format of Score-P, which Cube, pycubexr and Extra-P read.

A cubex file is a tar archive of ``anchor.xml`` and, for each metric, one member with row numbers
(``N.index``) and one with values (``N.data``).
"""

from __future__ import annotations

import io
import re
import struct
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from buran.budget import DEPTH, VARIABLE
from buran.errors import RunError
from buran.files import write_bytes
from buran.profiles.metrics import Metric
from buran.profiles.profile import CallTree, Location, Profile, Region
from buran.profiles.regroup import children, preorder

WRAPPED = "Buran wrapped roots"
"""Attribute of files whose first call path was put on top of a forest, since readers want one root."""

_SYNTAX: Mapping[str, str] = {
    "CubePL Version": "1.1",
    "Cube Version": "4.8.2",
    "Cube anchor.xml syntax version": "4.4",
    "CLUSTERING": "OFF",
}
# XML cannot hold most control characters, and its readers change tabs and line ends.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")

LARGEST_COUNT = 0xFFFFFFFFFFFFFBFF
"""Readers of cubex turn unsigned counts above this into 0."""

NOTHING_LARGE = 5e-324
"""Stands for 0 where the largest of something is 0 at all locations: a row of zeros is a missing one to Cube's library,
which then shows the least number there is."""

_STORED = {"UINT64": "<u8", "INT64": "<i8", "DOUBLE": "<f8", "MINDOUBLE": "<f8", "MAXDOUBLE": "<f8"}
_BLOCK = 512
_WRAPPER = Region("roots", "roots", paradigm="measurement", role="artificial")


def _text(value: str) -> str:
    r"""Escape for XML; characters that XML cannot hold are spelled out, as in ``\x07``."""
    value = _UNSAFE.sub(lambda match: f"\\x{ord(match[0]):02x}", value)
    return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _metrics(metrics: Sequence[Metric]) -> Iterator[str]:
    for number, metric in enumerate(metrics):
        yield f'<metric id="{number}" type="{metric.kind.upper()}">'
        yield f"<disp_name>{_text(metric.title or metric.name)}</disp_name>"
        yield f"<uniq_name>{_text(metric.name)}</uniq_name>"
        yield f"<dtype>{metric.dtype}</dtype>"
        yield f"<uom>{_text(metric.unit)}</uom>"
        yield "<url></url>"
        yield f"<descr>{_text(metric.description)}</descr>"
        yield "</metric>"


def _regions(regions: Sequence[Region]) -> Iterator[str]:
    for number, region in enumerate(regions):
        line = region.line if region.line > 0 else -1
        yield f'<region id="{number}" mod="{_text(region.file)}" begin="{line}" end="{line}">'
        yield f"<name>{_text(region.name)}</name>"
        yield f"<mangled_name>{_text(region.mangled or region.name)}</mangled_name>"
        yield f"<paradigm>{region.paradigm}</paradigm>"
        yield f"<role>{_text(region.role)}</role>"
        yield "<url></url>"
        yield "<descr></descr>"
        yield "</region>"


def _call_tree(tree: CallTree) -> Iterator[str]:
    below = children(tree.parent)
    region = tree.region.tolist()
    stack = below[-1][::-1]
    while stack:
        node = stack.pop()
        if node < 0:
            yield "</cnode>"
            continue
        yield f'<cnode id="{node}" calleeId="{region[node]}">'
        stack.append(-1)
        stack.extend(reversed(below[node]))


def _system(locations: Sequence[Location]) -> Iterator[str]:
    yield '<systemtreenode Id="0">'
    yield "<name>machine</name>"
    yield "<class>machine</class>"
    yield '<systemtreenode Id="1">'
    yield "<name>node</name>"
    yield "<class>node</class>"
    number = 0
    for group, (rank, threads) in enumerate(groupby(locations, key=lambda location: location.rank)):
        yield f'<locationgroup Id="{group}">'
        yield f"<name>MPI Rank {rank}</name>"
        yield f"<rank>{rank}</rank>"
        yield "<type>process</type>"
        for location in threads:
            name = "Master thread" if location.thread == 0 else f"OMP thread {location.thread}"
            yield f'<location Id="{number}">'
            yield f"<name>{name}</name>"
            yield f"<rank>{location.thread}</rank>"
            yield "<type>thread</type>"
            yield "</location>"
            number += 1
        yield "</locationgroup>"
    yield "</systemtreenode>"
    yield "</systemtreenode>"


def _anchor(
    tree: CallTree, locations: Sequence[Location], metrics: Sequence[Metric], attributes: Mapping[str, str]
) -> bytes:
    """Return ``anchor.xml``; elements stand in the order that Cube's grammar prescribes.

    Parameters
    ----------
    tree
        The call paths; one root. The index of a call path is its id.
    locations
        Sorted by rank, then thread.
    metrics
        Their positions are their ids.
    attributes
        Free key-value pairs; written sorted.
    """
    pairs = {"Creator": "Buran", **attributes, **_SYNTAX}
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<cube version="4.4">']
    lines += [f'<attr key="{_text(key)}" value="{_text(value)}"/>' for key, value in sorted(pairs.items())]
    lines += ["<doc>", "<mirrors>", "</mirrors>", "</doc>", "<metrics>", *_metrics(metrics), "</metrics>"]
    lines += ["<program>", *_regions(tree.regions), *_call_tree(tree), "</program>"]
    lines += ["<system>", *_system(locations), "</system>", "</cube>", ""]
    return "\n".join(lines).encode("utf-8")


def wide_order(tree: CallTree) -> NDArray[np.int64]:
    """Return the call paths in the order of the rows of inclusive metrics.

    The root comes first; then all children of a call path together, then what is below each of them in turn.
    Not breadth first.
    """
    below = children(tree.parent)
    order: list[int] = []
    stack: list[int] = []
    for root in below[-1]:
        order.append(root)
        stack.append(root)
        while stack:
            node = stack.pop()
            order.extend(below[node])
            stack.extend(reversed(below[node]))
    return np.array(order, dtype=np.int64)


def _index(rows: int) -> bytes:
    # Format 1, "sparse", lists row numbers. All rows are listed: Extra-P takes a row that is missing at one
    # point out of the model, and pycubexr cannot read the format that leaves the list out.
    numbers = np.arange(rows, dtype="<u4").tobytes()
    return b"CUBEX.INDEX" + struct.pack("<IHBI", 1, 0, 1, rows) + numbers


def _data(values: NDArray[np.generic], compress: bool) -> bytes:
    if not compress:
        return b"CUBEX.DATA" + values.tobytes()
    rows = [zlib.compress(row.tobytes(), 6) for row in values]
    sizes = np.array([len(row) for row in rows], dtype="<u8")
    table = np.zeros((len(rows), 3), dtype="<u8")
    table[:, 0] = np.arange(len(rows)) * (values.shape[1] * values.itemsize)
    table[1:, 1] = np.cumsum(sizes)[:-1]
    table[:, 2] = sizes
    return b"ZCUBEX.DATA" + struct.pack("<Q", len(rows)) + table.tobytes() + b"".join(rows)


def _refuse(profile: Profile, metric: Metric, wrong: NDArray[np.bool_], why: str, path: Path) -> None:
    if not wrong.any():
        return
    call_path, location = np.argwhere(wrong)[0]
    where = profile.locations[location]
    raise RunError(
        f"the profile cannot be written: metric {metric.name} has a value that cannot be right",
        where=f"{path}, call path {profile.tree.names[call_path]}, rank {where.rank}, thread {where.thread}",
        why=f"the value is {profile.values[metric.name][call_path, location]!s}; {why}",
    )


def _check_depth(profile: Profile, path: Path) -> None:
    """Refuse what could not be read again."""
    depth = int(profile.tree.depth.max(initial=-1)) + 1
    if depth > DEPTH.allowed:
        raise RunError(
            "the profile cannot be written: its call paths are too deep",
            where=path,
            why=f"there are {depth:,} {DEPTH.what}, and the limit is {DEPTH.allowed:,}",
            hint=f"set {VARIABLE} in the environment, for writing and reading: all limits grow by that factor",
        )


def _checked(profile: Profile, metric: Metric, path: Path) -> NDArray[np.generic]:
    """Return the values as they are stored; every number survives exactly or the run is refused."""
    values = np.asarray(profile.values[metric.name])
    if values.shape != (len(profile.tree), len(profile.locations)):
        raise ValueError(f"{metric.name}: shape {values.shape} is not (call path, location)")
    if metric.dtype in ("DOUBLE", "MINDOUBLE", "MAXDOUBLE"):
        numbers = values.astype(np.float64)
        wrong = np.isnan(numbers) if metric.dtype != "DOUBLE" else ~np.isfinite(numbers)
        _refuse(profile, metric, wrong, "a finite number is needed", path)
        if metric.unit == "sec":
            _refuse(profile, metric, numbers < 0, "a time is never negative", path)
    elif values.dtype.kind == "f":
        limit = 2.0**53
        inexact = ~(np.abs(values) <= limit) | (values != np.rint(values))
        _refuse(profile, metric, inexact, "a whole number up to 2^53 is needed", path)
    if metric.dtype == "UINT64":
        _refuse(profile, metric, values < 0, "a count is never negative", path)
        if values.dtype.kind == "u":
            _refuse(
                profile,
                metric,
                values > LARGEST_COUNT,
                f"readers show counts above {LARGEST_COUNT} as 0",
                path,
            )
    stored = values.astype(_STORED[metric.dtype])
    if metric.dtype == "MAXDOUBLE":
        stored[~stored.any(axis=1)] = NOTHING_LARGE
    return stored


def _one_root(profile: Profile) -> Profile:
    """Put a call path on top of a forest."""
    tree = profile.tree
    if np.count_nonzero(tree.parent < 0) == 1:
        return profile
    regions = (*tree.regions, _WRAPPER)
    region = np.concatenate([[len(tree.regions)], tree.region])
    parent = np.concatenate([[-1], tree.parent + 1])
    values: dict[str, NDArray[np.generic]] = {}
    for name, metric in profile.metrics.items():
        old = np.asarray(profile.values[name])
        how = metric.combination
        top = np.zeros((1, *old.shape[1:]), dtype=old.dtype)
        roots = old[tree.parent < 0]
        if len(roots) and (metric.kind == "inclusive" or how != "add"):
            top[0] = {"add": np.add, "min": np.minimum, "max": np.maximum}[how].reduce(roots, axis=0)
        values[name] = np.concatenate([top, old])
    return replace(
        profile,
        tree=CallTree(regions, region, parent),
        values=values,
        attributes={**profile.attributes, WRAPPED: "yes"},
    )


def _members(profile: Profile, path: Path, compress: bool) -> Mapping[str, bytes]:
    whole = _one_root(profile)
    order = {"exclusive": preorder(whole.tree.parent), "inclusive": wide_order(whole.tree)}
    if len(order["exclusive"]) != len(whole.tree):
        raise ValueError("the call tree has a cycle")
    members: dict[str, bytes] = {}
    for number, (name, metric) in enumerate(profile.metrics.items()):
        _checked(profile, metric, path)
        values = _checked(whole, whole.metrics[name], path)[order[metric.kind]]
        members[f"{number}.data"] = _data(values, compress)
        members[f"{number}.index"] = _index(len(values))
    # The head comes last: a file that ends early is then unreadable, not one without some metrics.
    members["anchor.xml"] = _anchor(whole.tree, whole.locations, tuple(whole.metrics.values()), whole.attributes)
    return members


def write_cubex(profile: Profile, path: Path, *, compress: bool = False) -> None:
    """Write a profile; the file appears whole or not at all, and depends on nothing but the profile.

    Parameters
    ----------
    profile
        A forest of call paths gets a common root, which `read_cubex` takes off again.
    path
        The file; replaced if it exists.
    compress
        Store each row as a zlib stream.

    Raises
    ------
    RunError
        A value is NaN or infinite, a time or a count is negative, a count is no whole number or too large for
        the format's readers, or a metric takes more than 8 GB.
    ValueError
        The arrays do not fit together, or locations are missing, repeated or not sorted.
    """
    locations = profile.locations
    if not locations or any(a >= b for a, b in pairwise(locations)):
        raise ValueError("locations must be unique and sorted, and at least one")
    _check_depth(profile, path)
    members = _members(profile, path, compress)
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in members.items():
            # cubelib goes one block too far behind a member whose size is a multiple of the block size, and
            # reads the next metric as 0. One more byte is harmless: compressed rows have their sizes in the
            # table, plain members have sizes of 10 + 8 k and 18 + 4 k, and XML may end with an empty line.
            if len(data) % _BLOCK == 0:
                data += b"\n" if name == "anchor.xml" else b"\0"
            member = tarfile.TarInfo(name)
            member.size = len(data)
            member.mode = 0o600
            try:
                archive.addfile(member, io.BytesIO(data))
            except ValueError as error:
                raise RunError(
                    "the profile is too large for a cubex file",
                    where=path,
                    why=f"{name} takes {len(data)} bytes, and a member may take 8 GB",
                    hint="measure fewer regions",
                ) from error
    write_bytes(path, content.getvalue())
