"""The XML head of a cubex file: metrics, regions, call tree, locations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from buran.profiles.metrics import Metric
from buran.profiles.profile import CallTree, Location, Region
from buran.profiles.regroup import children

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


def text(value: str) -> str:
    r"""Escape for XML; characters that XML cannot hold are spelled out, as in ``\x07``."""
    value = _UNSAFE.sub(lambda match: f"\\x{ord(match[0]):02x}", value)
    return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _metrics(metrics: Sequence[Metric]) -> Iterator[str]:
    for number, metric in enumerate(metrics):
        yield f'<metric id="{number}" type="{metric.kind.upper()}">'
        yield f"<disp_name>{text(metric.title or metric.name)}</disp_name>"
        yield f"<uniq_name>{text(metric.name)}</uniq_name>"
        yield f"<dtype>{metric.dtype}</dtype>"
        yield f"<uom>{text(metric.unit)}</uom>"
        yield "<url></url>"
        yield f"<descr>{text(metric.description)}</descr>"
        yield "</metric>"


def _regions(regions: Sequence[Region]) -> Iterator[str]:
    for number, region in enumerate(regions):
        line = region.line if region.line > 0 else -1
        yield f'<region id="{number}" mod="{text(region.file)}" begin="{line}" end="{line}">'
        yield f"<name>{text(region.name)}</name>"
        yield f"<mangled_name>{text(region.mangled or region.name)}</mangled_name>"
        yield f"<paradigm>{region.paradigm}</paradigm>"
        yield f"<role>{text(region.role)}</role>"
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


def anchor(
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
    lines += [f'<attr key="{text(key)}" value="{text(value)}"/>' for key, value in sorted(pairs.items())]
    lines += ["<doc>", "<mirrors>", "</mirrors>", "</doc>", "<metrics>", *_metrics(metrics), "</metrics>"]
    lines += ["<program>", *_regions(tree.regions), *_call_tree(tree), "</program>"]
    lines += ["<system>", *_system(locations), "</system>", "</cube>", ""]
    return "\n".join(lines).encode("utf-8")
