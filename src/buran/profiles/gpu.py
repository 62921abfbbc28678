"""GPUs in profiles of Score-P: which process their streams belong to, and what kernels take.

Score-P has a location for each stream, and the kernels of all streams as call paths below an artificial region. A
kernel's values on all streams of a process are those of the process here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycubexr.parsers import xml_parser_helper

from buran.profiles.metrics import Metric
from buran.profiles.profile import CallTree

STREAMS = ("gpu", "accelerator stream")
"""Types of locations that are streams, of Score-P before and since version 8."""
_CONTEXT = "accelerator"
_CREATOR = "Creating location group"
_KERNELS = "KERNELS"

_parse_group = xml_parser_helper.parse_location_group


def _with_attributes(node: Any) -> Any:
    """Return a group of locations with its attributes, which pycubexr leaves out."""
    group = _parse_group(node)
    group.attrs = {attribute.get("key"): attribute.get("value") for attribute in node.findall("attr")}
    return group


xml_parser_helper.parse_location_group = _with_attributes


def process_ranks(groups: Iterable[Any]) -> dict[int, int]:
    """Return the rank of the process that each group of locations belongs to, by the group's id, as far as known.

    Score-P numbers processes and contexts of GPUs together: with a context each, the second process is number 2.
    """
    contexts, processes = list[Any](), list[Any]()
    for group in groups:
        (contexts if group.type == _CONTEXT else processes).append(group)
    numbers = {int(group.rank) for group in contexts}
    if numbers & {int(group.rank) for group in processes}:
        numbers = set()
    ranks = {group.id: int(group.rank) - sum(other < int(group.rank) for other in numbers) for group in processes}
    names = Counter(group.name for group in processes)
    named = {group.name: ranks[group.id] for group in processes if names[group.name] == 1}
    return ranks | {group.id: named[creator] for group in contexts if (creator := group.attrs.get(_CREATOR)) in named}


def with_kernels(tree: CallTree) -> tuple[CallTree, NDArray[np.int64]]:
    """Return a call tree whose kernels are the GPU's, and where they are; times in which a stream idles are not."""
    below = np.zeros(len(tree), dtype=bool)
    kernels = list[int]()
    for node, (number, parent) in enumerate(zip(tree.region.tolist(), tree.parent.tolist(), strict=True)):
        region = tree.regions[number]
        inside = parent >= 0 and bool(below[parent])
        below[node] = inside or (region.name == _KERNELS and region.role == "artificial")
        if inside and region.role != "artificial":
            kernels.append(node)
    of_gpu = set(tree.region[below].tolist())
    regions = (replace(each, paradigm="gpu") if at in of_gpu else each for at, each in enumerate(tree.regions))
    return replace(tree, regions=tuple(regions)), np.array(kernels, dtype=np.int64)


def add_kernels(
    values: NDArray[Any],
    on_streams: NDArray[Any],
    first_threads: Sequence[int],
    metric: Metric,
    tree: CallTree,
    kernels: NDArray[np.int64],
) -> None:
    """Add to values, shape (call path, thread), those of kernels, shape (call path, stream).

    Parameters
    ----------
    first_threads
        For each stream the column of the first thread of its process.
    """
    inclusive = metric.kind == "inclusive"
    alone = np.zeros_like(on_streams, dtype=np.float64 if inclusive else on_streams.dtype)
    alone[kernels] = (tree.exclusive(on_streams.astype(np.float64)) if inclusive else on_streams)[kernels]
    rows = np.arange(len(tree)) if inclusive else kernels
    added = (tree.inclusive(alone) if inclusive else alone)[rows].astype(values.dtype)
    combine = {"MINDOUBLE": np.minimum, "MAXDOUBLE": np.maximum}.get(metric.dtype, np.add)
    for stream, thread in enumerate(first_threads):
        own, there = values[rows, thread], added[:, stream]
        # Also of an extreme, 0 stands for a call path that was not visited.
        values[rows, thread] = np.where((own == 0) | (there == 0), own + there, combine(own, there))
