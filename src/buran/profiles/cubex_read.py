"""Reading cubex files of Score-P and of `buran.profiles.cubex_write`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from buran.budget import check_memory
from buran.profiles.cubex_file import (
    DERIVED,
    CorruptProfile,
    check_members,
    opened,
)
from buran.profiles.cubex_write import LARGEST_COUNT, NOTHING_LARGE, WRAPPED
from buran.profiles.gpu import STREAMS, add_kernels, process_ranks, with_kernels
from buran.profiles.metrics import Metric, metric_of
from buran.profiles.names import shown_name
from buran.profiles.profile import CallTree, Location, Paradigm, Profile, Region
from buran.profiles.regroup import fold, folded

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
            raise CorruptProfile(f"region {region.id} has no name")
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
        raise CorruptProfile("two regions have the same id")
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
            raise CorruptProfile(f"two call paths have the id {node.id}")
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
        raise CorruptProfile("locations are missing or there twice")
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
            raise CorruptProfile(f"metric {name} has a value that is not finite")
        if metric.unit == "sec" and (values < 0).any():
            raise CorruptProfile(f"metric {name} has a negative time")
    elif metric.dtype == "UINT64" and (values > LARGEST_COUNT).any():
        raise CorruptProfile(f"metric {name} has a count above {LARGEST_COUNT}, which readers show as 0")


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


def _declared(parser: Any, with_data: set[int]) -> list[Any]:
    """Return the metrics of a file; each has a name of its own, and none has values without being there."""
    declared = [metric for top in parser.get_metrics() for metric in top.get_all_children()]
    if len({metric.name for metric in declared}) != len(declared):
        raise CorruptProfile("two metrics have the same name")
    for number in with_data - {metric.id for metric in declared}:
        raise CorruptProfile(f"there are values of a metric {number} that is not declared")
    return declared


def _definition(metric: Any, has_data: bool) -> Metric | str:
    """Return what a metric is, or its name and kind where its values are no plain numbers."""
    if metric.metric_type in DERIVED[:3]:  # an expression over other metrics, without values of its own
        if has_data:
            raise CorruptProfile(f"metric {metric.name} is {metric.metric_type}, and has values of its own")
        return f"{metric.name} ({metric.metric_type})"
    dtype = _DTYPES.get(metric.data_type)
    if dtype is None:
        if not _COMPOUND.match(metric.data_type):
            raise CorruptProfile(f"metric {metric.name} has the unknown data type {metric.data_type!r}")
        return f"{metric.name} ({metric.data_type})"
    return replace(
        metric_of(metric.name),
        unit=metric.units or "",
        kind="inclusive" if metric.metric_type == "INCLUSIVE" else "exclusive",
        dtype=dtype,
        title=metric.display_name or "",
        description=metric.description or "",
    )


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

    with opened(path) as parser:
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
    with opened(path) as parser:
        # The two private members hold what no method of CubexParser returns: groups, attributes, offsets.
        with_data = check_members(parser._cubex_file)
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


def read_profile(path: Path) -> Profile:
    """Read a cubex file, its call paths as `as_call_paths` makes them.

    Raises
    ------
    FormatError
        See `read_cubex`.
    """
    return as_call_paths(read_cubex(path))


def is_parameter_value(region: Region) -> bool:
    """Tell whether a region is Score-P's node of a parameter's value, or of an instance or cluster."""
    name, sign, _ = region.name.partition("=")
    return region.paradigm == "user" and region.role in ("unknown", "parameter") and bool(sign) and name.strip() != ""


def as_call_paths(profile: Profile) -> Profile:
    """Fold the instances of dynamic regions, and the values of parameters, into the regions they belong to.

    Score-P gives each instance of a dynamic region, each cluster of instances and each value of a parameter
    (``SCOREP_USER_PARAMETER_INT64``) a node of its own in the call tree: ``step->instance=7->solve``. How many there
    are depends on the run. For models they are one call path, ``step->solve``, visited as often as there are instances.
    Counts and times are sums over the instances, extremes the extremes of all; the visits of a dynamic region are the
    number of its instances.

    Parameters
    ----------
    profile
        As it was read. Without such nodes it is returned as it is.
    """
    if not any(is_parameter_value(profile.tree.regions[number]) for number in set(profile.tree.region.tolist())):
        return profile
    folding = fold(profile.tree, lambda region: not is_parameter_value(region))
    return folded(profile, folding, stays_behind=lambda metric: False)
