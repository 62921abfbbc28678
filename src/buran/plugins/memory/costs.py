"""Memory as an account of models of time: what a machine file, sampled accesses and counted page faults tell."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from buran.campaign.config import Campaign
from buran.campaign.expressions import written_out
from buran.modeling.functions.terms import Array, ModelFunction
from buran.modeling.pmnf.repetitions import over_repetitions
from buran.modeling.priors.effort import Steadiness, effort_of
from buran.modeling.priors.paths import taken_up, work_of_a_thread
from buran.plugins.memory.account import CacheCost, MemoryAccount, MissCost, PageAccount, derived_or_none, is_written
from buran.plugins.memory.caches import Divided, models_of
from buran.plugins.memory.machine_file import Level, MachineFile
from buran.plugins.memory.reuse import LINE
from buran.profiles.experiment.build import Run
from buran.profiles.experiment.table import Experiment
from buran.profiles.metrics import MINOR_FAULTS
from buran.profiles.profile import CallTree

# Of a line's time at full bandwidth, which it costs where other work hides it. Tuned: judgement.
HIDDEN = 0.1
# Of the lines of a stream, which a program waits for at the most: the first of rows of eight. Tuned: of 1/16 and 1/8
# what holds the times of sweep.
UNFORESEEN = 1 / 8
# Times as much, or as little, as in the calibration, which a page fault takes at the most. Tuned: judgement.
FAULT = 2.0


def memory_account(
    campaign: Campaign, machine: MachineFile, sampled: Sequence[Run], tree: CallTree
) -> MemoryAccount | None:
    """Return what misses cost the call paths of a tree; None where the accesses do not tell it.

    Parameters
    ----------
    sampled
        Runs with distances.
    tree
        Call paths of the times.
    """
    names = campaign.parameters
    ranks = ranks_of_a_node(campaign) if is_written(names) else None
    distances = None if ranks is None else models_of(sampled, tree)
    if ranks is None or distances is None:
        return None
    target = campaign.target
    at = np.array([[float(target[name]) for name in names]])
    there = campaign.placement(target).ranks_per_node
    caches = [cache_cost(machine, level, ranks, there) for level in range(len(machine.caches))]
    return MemoryAccount(distances, caches, at)


def page_account(
    campaign: Campaign, machine: MachineFile, counted: Experiment | None, tree: CallTree
) -> PageAccount | None:
    """Return what page faults cost the call paths of a tree; None where machine or counts do not tell it.

    Parameters
    ----------
    counted
        Counts; page faults may be among them.
    tree
        Call paths of the times.
    """
    names = campaign.parameters
    ranks = ranks_of_a_node(campaign) if is_written(names) else None
    if not machine.fault_s or counted is None or ranks is None:
        return None
    target = campaign.target
    at = np.array([[float(target[name]) for name in names]])
    cost = fault_cost(machine, ranks, campaign.placement(target).ranks_per_node)
    faults = faults_of(counted, tree)
    return None if faults is None else PageAccount(faults, cost, names, at)


def faults_of(counted: Experiment, tree: CallTree) -> list[ModelFunction | None] | None:
    """Return how many page faults the call paths of a tree have; None where they were not counted."""
    if MINOR_FAULTS not in counted.values:
        return None
    counted = work_of_a_thread(counted)
    numbers = over_repetitions(counted.over_locations(MINOR_FAULTS, "mean"), "median")
    effort = effort_of(counted.points, taken_up(numbers, counted.tree, tree), metric=MINOR_FAULTS)
    known = (Steadiness.EXACT, Steadiness.DATA_DEPENDENT)
    return [
        function if steadiness in known else None
        for function, steadiness in zip(effort.functions, effort.steadiness, strict=True)
    ]


def fault_cost(machine: MachineFile, ranks: str, there: int) -> MissCost:
    """Return what a page fault takes; see `cache_cost`."""
    middle, growth = machine.fault_s_of(there), "1"
    if ranks != str(there):
        used = f"min({ranks}, {machine.cores})"
        growth = _in_proportion(machine.fault_s, machine.fault_busy_s, machine.cores, used, middle)
    return MissCost((middle / FAULT, middle, middle * FAULT), growth)


def _in_proportion(one: float, full: float, cores: int, used: str, expected: float) -> str:
    """Return an expression for a cost over what is expected: between one rank and all cores, as latency is."""
    rise = (full - one) / max(cores - 1, 1)
    return f"({one!r} + {rise!r} * ({used} - 1)) / {expected!r}" if expected else "1"


def cache_cost(machine: MachineFile, level: int, ranks: str, there: int) -> CacheCost:
    """Return what a miss of a level costs beyond a hit.

    Parameters
    ----------
    ranks
        Expression: those of a node.
    there
        How many they are at the target, whose cost is the one that is expected.
    """
    scattered, streamed = scattered_s(machine, level, there), streamed_s(machine, level, there)
    size, divided, growths = machine.cache_of_a_rank(level, there), "1", ["1", "1"]
    if ranks != str(there):
        size = machine.caches[level]
        used = f"min({ranks}, {machine.cores})"
        divided = f"max({used} * {machine.levels[level].shared_by / machine.cores!r}, 1)"
        one, full = (sum(scattered_s(machine, level, number)) for number in (1, machine.cores))
        growths[0] = _in_proportion(one, full, machine.cores, used, sum(scattered))
        near, far = (_line_of(machine.levels[at], machine.cores, used) for at in (level, level + 1))
        growths[1] = f"max({far} - {near}, 0) / {streamed[1]!r}" if streamed[1] else "1"
    costs = [MissCost(seconds, growth) for seconds, growth in zip((scattered, streamed), growths, strict=True)]
    return CacheCost(level + 1, size, costs[0], costs[1], divided)


def _line_of(level: Level, cores: int, used: str) -> str:
    """Return an expression for the seconds of a line: those of one core's bandwidth, until that of all is used up."""
    return f"max({LINE / level.bandwidth!r}, {LINE / level.bandwidth_busy / cores!r} * {used})"


def _extra(machine: MachineFile, level: int, ranks: int) -> tuple[float, float, float]:
    """Return what a miss of a level takes beyond a hit: in a stream, in random order, and waited for."""
    near, far = (
        (LINE / machine.bandwidth_of(at, ranks), machine.gather_s_of(at, ranks), machine.latency_s_of(at, ranks))
        for at in (level, level + 1)
    )
    stream, gather, latency = (max(beyond - within, 0.0) for within, beyond in zip(near, far, strict=True))
    return stream, gather, latency


def scattered_s(machine: MachineFile, level: int, ranks: int) -> tuple[float, float, float]:
    """Return what a miss takes beyond a hit that nobody foresees, or of which nothing is known; ascending."""
    least, middle, most = sorted(_extra(machine, level, ranks))
    return least, middle, most


def streamed_s(machine: MachineFile, level: int, ranks: int) -> tuple[float, float, float]:
    """Return what a miss takes beyond a hit that belongs to a stream: hidden, at full bandwidth, and with new pages."""
    stream, _, latency = _extra(machine, level, ranks)
    return HIDDEN * stream, stream, stream + UNFORESEEN * latency


def sharing(campaign: Campaign, machine: MachineFile | None, caches: Sequence[int]) -> list[Divided]:
    """Return by how many ranks each cache is shared; empty where no machine file describes these caches."""
    if machine is None or machine.caches != tuple(caches):
        return []
    text = ranks_of_a_node(campaign)
    variable = None if text is None else derived_or_none("ranks", text, campaign.parameters)
    there = campaign.placement(campaign.target).ranks_per_node

    def divided(level: int, points: Array) -> Array:
        ranks = np.full(len(points), float(there)) if variable is None else variable.evaluate(points)
        return np.array([machine.caches[level] / machine.cache_of_a_rank(level, float(each)) for each in ranks])

    return [partial(divided, level) for level in range(len(caches))]


def ranks_of_a_node(campaign: Campaign) -> str | None:
    """Return an expression for the ranks on a node; None where no simple one is right at all points."""
    points = [*campaign.points, *campaign.evaluation_points, campaign.target]
    counts = [campaign.placement(point).ranks_per_node for point in points]
    if len(set(counts)) == 1:
        return str(counts[0])
    formulas = campaign.formulas
    texts = [f"({formulas.ranks.text})"]
    if formulas.nodes is not None:
        texts.append(f"ceil(({formulas.ranks.text}) / ({formulas.nodes.text}))")
    if formulas.tasks_per_node is not None:
        texts.append(f"({formulas.tasks_per_node.text})")
    at = np.array([[float(point[name]) for name in campaign.parameters] for point in points])
    for text in texts:
        written = written_out({**campaign.config.values, "ranks_of_a_node": text}).get("ranks_of_a_node")
        variable = derived_or_none("ranks", written or "", campaign.parameters)
        if written is not None and variable is not None and (variable.evaluate(at) == counts).all():
            return written
    return None
