"""Reading cubex files of Score-P and of `buran.profiles.cubex_write`."""

from __future__ import annotations

import re
import sys
import tarfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from gzip import GzipFile
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast, get_args
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray
from pycubexr import CubexParser
from pycubexr.classes.cnode import CNode
from pycubexr.classes.metric import MetricType
from pycubexr.utils.custom_tarinfo import TarInfoWithoutCheck

from buran.budget import DEPTH, VARIABLE, check_memory
from buran.errors import FormatError
from buran.profiles.cubex_write import LARGEST_COUNT, NOTHING_LARGE, WRAPPED
from buran.profiles.gpu import STREAMS, add_kernels, process_ranks, with_kernels
from buran.profiles.metrics import Metric, metric_of
from buran.profiles.names import shown_name
from buran.profiles.profile import CallTree, Location, Paradigm, Profile, Region

SKIPPED = "Buran skipped metrics"
"""Attribute that names the metrics that were left out because their values are no plain numbers."""

BELOW_ZERO = "Buran counters below zero"
"""Attribute that names the counters that were left out because they fell below zero, as some of PAPI do."""

SKIPPED_LOCATIONS = "Buran skipped locations"
"""Attribute that counts the locations that were left out because they are neither threads nor run kernels."""

PARAMETRIZED = "parametrized"
"""Role of functions in which the program records the value of a parameter: Score-P wants them to have hooks."""

_Dtype = Literal["UINT64", "INT64", "DOUBLE", "MINDOUBLE", "MAXDOUBLE"]
_DTYPES: dict[str, _Dtype] = {
    "UINT64": "UINT64", "UINT32": "UINT64", "UINT16": "UINT64", "UINT8": "UINT64",
    "UNSIGNED INTEGER": "UINT64", "UNSIGNED INT": "UINT64", "UNSIGNED SHORT INT": "UINT64",
    "INT64": "INT64", "INTEGER": "INT64", "SIGNED INTEGER": "INT64", "INT32": "INT64", "INT16": "INT64",
    "INT8": "INT64", "INT": "INT64", "SIGNED INT": "INT64", "SHORT INT": "INT64", "SIGNED SHORT INT": "INT64",
    "DOUBLE": "DOUBLE", "FLOAT": "DOUBLE", "MINDOUBLE": "MINDOUBLE", "MAXDOUBLE": "MAXDOUBLE",
}  # fmt: skip
_COMPOUND = re.compile(r"(TAU_ATOMIC|COMPLEX|RATE|HISTOGRAM|NDOUBLES|SCALE_FUNC|CHAR)\b")
_ARRAYS = {"UINT64": np.uint64, "INT64": np.int64}
_PARADIGMS = {**{name: name for name in get_args(Paradigm)}, "omp": "openmp"}
_DERIVED = ("POSTDERIVED", "PREDERIVED_EXCLUSIVE", "PREDERIVED_INCLUSIVE", "SIMPLE")
for _kind in _DERIVED:  # pycubexr knows the two kinds with values alone, and refuses files with others
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


class _Corrupt(Exception):
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
    except _Corrupt as error:
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
def _opened(path: Path) -> Iterator[Any]:
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
                raise _Corrupt(f"{member.name} claims to be larger than the file")
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


def _check_members(archive: tarfile.TarFile) -> set[int]:
    """Return the numbers of the metrics that have data, if the archive is whole.

    Python's tarfile takes a damaged header in the middle for the end of the archive.
    """
    members = archive.getmembers()
    names = {member.name for member in members}
    if len(names) != len(members):
        raise _Corrupt("a member of the archive is there twice")
    end = max((member.offset_data + -(-member.size // _BLOCK) * _BLOCK for member in members), default=0)
    stream = cast(BinaryIO, archive.fileobj)
    stream.seek(end)
    while chunk := stream.read(1 << 20):
        if chunk.strip(b"\0"):
            raise _Corrupt("there is data behind what looks like the end of the archive")
    numbers: dict[str, set[int]] = {"data": set(), "index": set()}
    for name in names:
        stem, _, kind = name.partition(".")
        if kind in numbers:
            numbers[kind].add(int(stem))
    for number in numbers["data"] ^ numbers["index"]:
        raise _Corrupt(f"metric {number} has only one of {number}.index and {number}.data")
    return numbers["data"]


def _paradigm(region: Any) -> Paradigm:
    # Files before Cube 4.4 have the paradigm in the description. Paradigms without a name of their own here
    # (pthread, cuda, io, ...) are instrumented by someone else than the compiler, as user regions are.
    name = region.paradigm or region.description or "compiler"
    return cast(Paradigm, _PARADIGMS.get(name, "user"))


def _regions(parser: Any) -> tuple[list[Region], dict[int, int]]:
    regions: list[Region] = []
    index: dict[int, int] = {}
    for region in parser.regions:
        if not region.name:
            raise _Corrupt(f"region {region.id} has no name")
        index[region.id] = len(regions)
        mangled, paradigm = region.mangled_name or "", _paradigm(region)
        regions.append(
            Region(
                name=shown_name(region.name, mangled) if paradigm == "compiler" else region.name,
                mangled=mangled,
                file=region.mod or "",
                line=max(region.begin, 0),
                paradigm=paradigm,
                role=region.role or "function",
            )
        )
    if len(index) != len(regions):
        raise _Corrupt("two regions have the same id")
    return regions, index


def _call_tree(anchor: Any) -> tuple[CallTree, dict[int, int]]:
    """Return the call paths in pre-order and the index of each cnode id."""
    regions, region_index = _regions(anchor)
    index: dict[int, int] = {}
    parametrized: set[int] = set()
    region: list[int] = []
    parent: list[int] = []
    stack = anchor.cnodes[::-1]
    while stack:
        node = stack.pop()
        if node.id in index:
            raise _Corrupt(f"two call paths have the id {node.id}")
        index[node.id] = len(region)
        region.append(region_index[node.callee_region_id])
        parent.append(-1 if node.parent is None else index[node.parent.id])
        parametrized |= {region[-1]} if node.parameters else set()
        stack.extend(reversed(node.get_children()))
    for number in parametrized:
        regions[number] = replace(regions[number], role=PARAMETRIZED)
    return CallTree(tuple(regions), np.array(region, dtype=np.int64), np.array(parent, dtype=np.int64)), index


@dataclass(frozen=True)
class _Locations:
    """Where values are stored.

    Attributes
    ----------
    columns
        Columns of the locations.
    streams
        Column of each stream of a GPU, with the position of the first thread of its process among the locations.
    others
        Number of further columns.
    """

    locations: tuple[Location, ...]
    columns: NDArray[np.int64]
    streams: Mapping[int, int]
    others: int


def _locations(anchor: Any) -> _Locations:
    groups = anchor.system_tree_nodes[0].all_location_groups()
    ranks = process_ranks(groups)
    found: list[tuple[int, Location | None, int | None]] = []
    for group in groups:
        for location in group.all_locations():
            thread = location.type in (None, "thread", "cpu thread")
            process = ranks.get(group.id) if location.type in STREAMS else None
            found.append((location.id, Location(ranks[group.id], int(location.rank)) if thread else None, process))
    # Values stand in the order of the ids, which need not be that of the system tree.
    found.sort(key=lambda each: each[0])
    threads = sorted((location, column) for column, (_, location, _) in enumerate(found) if location is not None)
    locations = tuple(location for location, _ in threads)
    if not locations or len(set(locations)) != len(locations) or len({location[0] for location in found}) != len(found):
        raise _Corrupt("locations are missing or there twice")
    first = {location.rank: position for position, location in reversed(list(enumerate(locations)))}
    streams = {column: first[process] for column, (_, _, process) in enumerate(found) if process in first}
    columns = np.array([column for _, column in threads], dtype=np.int64)
    return _Locations(locations, columns, streams, len(found) - len(locations) - len(streams))


def _values(parser: Any, metric: Any, dtype: _Dtype, index: dict[int, int], columns: NDArray[np.int64]) -> NDArray[Any]:
    """Return shape (call path, location) in the order of the call paths and threads."""
    array = _ARRAYS.get(dtype, np.float64)
    # By default pycubexr turns counts that are too large into 0, as cubelib does.
    stored = parser.get_metric_values(metric, cache=False, allow_full_uint64_values=True)
    stored_values = np.asarray(stored.values.astype(array)).reshape(len(stored.cnode_indices), -1)
    rows = np.fromiter((index[node] for node in stored.cnode_indices), dtype=np.int64, count=len(stored_values))
    out = np.zeros((len(index), len(columns)), dtype=array)
    if dtype == "MAXDOUBLE":
        stored_values[stored_values == NOTHING_LARGE] = 0.0
    out[rows] = stored_values[list(stored.cnode_indices.values())][:, columns]
    return out


def _check_values(metric: Metric, values: NDArray[Any]) -> None:
    name = metric.name
    if values.dtype.kind == "f":
        if np.isnan(values).any() or (metric.dtype == "DOUBLE" and np.isinf(values).any()):
            raise _Corrupt(f"metric {name} has a value that is not finite")
        if metric.unit == "sec" and (values < 0).any():
            raise _Corrupt(f"metric {name} has a negative time")
    elif metric.dtype == "UINT64" and (values > LARGEST_COUNT).any():
        raise _Corrupt(f"metric {name} has a count above {LARGEST_COUNT}, which readers show as 0")


def _fell(metric: Metric, values: NDArray[Any], tree: CallTree) -> bool:
    """Tell whether a counter went back somewhere between two readings: what it says elsewhere is then worth no more.

    Score-P stores the difference of two readings, callees included, as a count without a sign.
    """
    if (metric.role, metric.kind, metric.dtype) != ("sampled", "inclusive", "UINT64"):
        return False
    alone = values.astype(np.int64)
    below = tree.parent >= 0
    np.subtract.at(alone, tree.parent[below], values.astype(np.int64)[below])
    return bool((alone < 0).any())


def _without_wrapper(profile: Profile) -> Profile:
    tree = profile.tree
    return replace(
        profile,
        tree=CallTree(tree.regions[:-1], tree.region[1:], tree.parent[1:] - 1),
        values={name: values[1:] for name, values in profile.values.items()},
        attributes={key: value for key, value in profile.attributes.items() if key != WRAPPED},
    )


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


def _declared(parser: Any, with_data: set[int]) -> list[Any]:
    """Return the metrics of a file; each has a name of its own, and none has values without being there."""
    declared = [metric for top in parser.get_metrics() for metric in top.get_all_children()]
    if len({metric.name for metric in declared}) != len(declared):
        raise _Corrupt("two metrics have the same name")
    for number in with_data - {metric.id for metric in declared}:
        raise _Corrupt(f"there are values of a metric {number} that is not declared")
    return declared


def _definition(metric: Any, has_data: bool) -> Metric | str:
    """Return what a metric is, or its name and kind where its values are no plain numbers."""
    if metric.metric_type in _DERIVED[:3]:  # an expression over other metrics, without values of its own
        if has_data:
            raise _Corrupt(f"metric {metric.name} is {metric.metric_type}, and has values of its own")
        return f"{metric.name} ({metric.metric_type})"
    dtype = _DTYPES.get(metric.data_type)
    if dtype is None:
        if not _COMPOUND.match(metric.data_type):
            raise _Corrupt(f"metric {metric.name} has the unknown data type {metric.data_type!r}")
        return f"{metric.name} ({metric.data_type})"
    return replace(
        metric_of(metric.name),
        unit=metric.units or "",
        kind="inclusive" if metric.metric_type == "INCLUSIVE" else "exclusive",
        dtype=dtype,
        title=metric.display_name or "",
        description=metric.description or "",
    )


def _read(path: Path) -> Profile:
    _check_format(path)
    with _deep_recursion(), _opened(path) as parser:
        # The two private members hold what no method of CubexParser returns: groups, attributes, offsets.
        with_data = _check_members(parser._cubex_file)
        anchor = parser._anchor_result
        tree, index = _call_tree(anchor)
        tree, kernels = with_kernels(tree)
        layout = _locations(anchor)
        locations = layout.locations
        streams = layout.streams if len(kernels) else {}
        skipped_locations = layout.others + len(layout.streams) - len(streams)
        check_memory(8 * len(tree) * len(locations) * len(with_data), path.stat().st_size, path)
        columns = np.concatenate([layout.columns, np.array(list(streams), dtype=np.int64)])
        metrics: dict[str, Metric] = {}
        values: dict[str, NDArray[np.generic]] = {}
        skipped: list[str] = []
        below_zero: list[str] = []
        for metric in _declared(parser, with_data):
            definition = _definition(metric, metric.id in with_data)
            if isinstance(definition, str):
                skipped.append(definition)
                continue
            if metric.id in with_data:
                every = _values(parser, metric, definition.dtype, index, columns)
                stored, on_streams = np.split(every, [len(locations)], axis=1)
                if streams:
                    add_kernels(stored, on_streams, list(streams.values()), definition, tree, kernels)
                if _fell(definition, stored, tree):
                    below_zero.append(definition.name)
                    continue
                _check_values(definition, stored)
            else:
                zero = np.zeros((), dtype=_ARRAYS.get(definition.dtype, np.float64))
                stored = np.broadcast_to(zero, (len(tree), len(locations)))
            metrics[definition.name], values[definition.name] = definition, stored
        attributes = {key: value or "" for key, value in anchor.attrs.items() if key is not None}
    left_out = {SKIPPED: ", ".join(skipped), BELOW_ZERO: ", ".join(below_zero)}
    left_out[SKIPPED_LOCATIONS] = str(skipped_locations or "")
    attributes |= {key: text for key, text in left_out.items() if text}
    profile = Profile(tree, locations, metrics, values, attributes)
    return _without_wrapper(profile) if WRAPPED in attributes else profile


def read_hosts(path: Path) -> dict[int, str]:
    """Return the host of each rank as the file's system tree names it; nothing where it names none.

    Raises
    ------
    FormatError
        As `read_cubex`.
    """
    hosts: dict[int, str] = {}

    def look(node: Any, host: str) -> None:
        kind, _, name = node.name.partition(" ")  # as Score-P writes it; pycubexr passes over the class
        inside = name if kind == "node" else host
        if inside:
            hosts.update((ranks[group.id], inside) for group in node._location_group_children if group.id in ranks)
        for below in node._system_tree_node_children:
            look(below, inside)

    with _explained(path), _opened(path) as parser:
        tops = parser._anchor_result.system_tree_nodes
        ranks = process_ranks(group for top in tops for group in top.all_location_groups())
        for top in tops:
            look(top, "")
    return hosts


def read_cubex(path: Path) -> Profile:
    """Read a profile of Score-P or of `write_cubex`, every value as it is stored.

    A metric that is declared but has no data is 0 everywhere: Score-P leaves out what it never counted.
    Metrics whose values are no plain numbers (``TAU_ATOMIC``, ``HISTOGRAM``, ...) and locations that are neither
    threads nor run kernels are left out, and attributes say so (`SKIPPED`, `SKIPPED_LOCATIONS`); so is a counter that
    fell below zero somewhere (`BELOW_ZERO`). Kernels have their values on all GPU streams of a process at its first
    thread.

    Raises
    ------
    FormatError
        The file is missing, truncated, damaged or of another kind, or holds NaN or a negative time.
    """
    with _explained(path):
        return _read(path)
