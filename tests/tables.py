"""Random tables and runs for property tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from buran.errors import FormatError
from buran.profiles.experiment.build import Run
from buran.profiles.experiment.read import read_experiment
from buran.profiles.experiment.table import Experiment
from buran.profiles.metrics import METRICS
from buran.profiles.profile import CallTree, Location, Profile, Region
from buran.profiles.regroup import TreeUnion

NAMES = st.one_of(
    st.sampled_from(
        (
            *("main", "solve(int)", "MPI_Allreduce", "operator->", "A<B>::operator->() const", "->"),
            *("f(decltype(a->b))", '"quoted"; {x}', "größe", "a#b", "tab\tbed"),
        )
    ),
    st.text(st.characters(exclude_categories=("Cs", "Cc", "Z")), min_size=1, max_size=6),
)
PLAIN_NAMES = st.one_of(
    st.sampled_from(["main", "solve(int)", "MPI_Allreduce", "A<B>::operator->() const", "f(decltype(a->b))"]),
    st.text(st.characters(categories=("L", "N")), min_size=1, max_size=5),
)
VALUES = st.floats(-1e150, 1e150)


@st.composite
def trees(draw: st.DrawFn, names: st.SearchStrategy[str] = NAMES) -> CallTree:
    size = draw(st.integers(1, 7))
    own = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    regions = tuple(
        Region(name, draw(st.sampled_from(["", f"_Z{i}"])), draw(st.sampled_from(["", "a.c"])), i)
        for i, name in enumerate(own)
    )
    parent = [draw(st.integers(-1, i - 1)) for i in range(size)]
    region = [draw(st.integers(0, len(regions) - 1)) for _ in range(size)]
    union = TreeUnion()
    union.add(CallTree(regions, np.array(region), np.array(parent)))
    return union.arrange()[0]


@st.composite
def points_of(draw: st.DrawFn, parameters: int) -> np.ndarray:
    numbers = st.integers(-5, 10**6).map(float) | st.floats(-1e9, 1e9, allow_subnormal=False)
    rows = draw(st.sets(st.tuples(*[numbers.map(lambda x: x + 0.0)] * parameters), min_size=1, max_size=4))
    return np.unique(np.array(sorted(rows)), axis=0)


@st.composite
def experiments(
    draw: st.DrawFn,
    located: bool = True,
    names: st.SearchStrategy[str] = NAMES,
    parameters: tuple[str, ...] = ("p", "size_n", "größe"),
) -> Experiment:
    """Draw a table in which every call path, point and repetition has at least one value."""
    used = parameters[: draw(st.integers(1, len(parameters)))]
    tree = draw(trees(names))
    points = draw(points_of(len(used)))
    metrics = draw(st.lists(st.sampled_from(["time", "basic_blocks", "my metric"]), min_size=1, unique=True))
    repetitions = draw(st.integers(1, 3))
    values = {}
    shape = (len(tree), len(points), repetitions)
    for metric in metrics:
        some = np.array(draw(st.lists(VALUES, min_size=1, max_size=8)))
        mean = np.resize(np.random.default_rng(0).permutation(some), shape)
        sets = np.stack([mean, mean, mean, mean, np.full(shape, np.nan)], axis=-1)
        if located and draw(st.booleans()):
            sets[..., 1:] = np.array(draw(st.lists(VALUES, min_size=4, max_size=4)))
            sets[0, 0, 0, 2] = draw(st.sampled_from([np.nan, 1.0]))
        values[metric] = sets
    # Missing values: not all of a metric, and nowhere in the first, so that nothing vanishes altogether.
    for metric in metrics[1:]:
        for _ in range(draw(st.integers(0, 3))):
            at = tuple(draw(st.integers(0, size - 1)) for size in shape)
            if any(at):
                values[metric][at] = np.nan
    units = {metric: METRICS[metric].unit if metric in METRICS else "" for metric in metrics}
    return Experiment(used, points, tree, values, units)


@st.composite
def measured_runs(draw: st.DrawFn) -> list[Run]:
    """Draw profiles of some points and repetitions of one program."""
    points = draw(st.lists(st.tuples(st.integers(1, 64), st.integers(1, 10**6)), min_size=1, max_size=3, unique=True))
    repetitions, ranks = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    drawn = draw(trees(PLAIN_NAMES))
    # Cube has a symbol for each region; one without has its name there.
    tree = replace(drawn, regions=tuple(Region(region.name, region.name) for region in drawn.regions))
    seconds = st.floats(0, 1e6, allow_subnormal=False)
    runs: list[Run] = []
    for p, n in points:
        for repetition in range(repetitions):
            cells = [draw(st.lists(seconds, min_size=ranks, max_size=ranks)) for _ in range(len(tree))]
            counts = [[float(int(value)) for value in row] for row in cells]
            runs.append(({"p": p, "n": n}, repetition, profile_of(tree, time=cells, basic_blocks=counts)))
    return runs


def tree_of(*paths: str) -> CallTree:
    """Make a tree of paths such as ``main/solve``; parents come first."""
    names = sorted({path.split("/")[-1] for path in paths})
    regions = tuple(
        Region(name, "_Z" + name, paradigm="mpi" if name.startswith("MPI_") else "compiler") for name in names
    )
    region = [names.index(path.split("/")[-1]) for path in paths]
    parent = [paths.index(path.rpartition("/")[0]) if "/" in path else -1 for path in paths]
    return CallTree(regions, np.array(region, dtype=np.int64), np.array(parent, dtype=np.int64))


def profile_of(tree: CallTree, **values: list[list[float]]) -> Profile:
    """Make a profile of exclusive values by call path and rank; inclusive metrics are added up."""
    arrays = {}
    for name, given in values.items():
        array = np.array(given, dtype=float)
        if METRICS[name].kind == "inclusive":
            array = tree.inclusive(array)
        arrays[name] = array.astype(np.uint64) if METRICS[name].dtype == "UINT64" else array
    ranks = next(iter(arrays.values())).shape[1]
    return Profile(tree, tuple(Location(r) for r in range(ranks)), {name: METRICS[name] for name in values}, arrays, {})


def same(a: Experiment, b: Experiment) -> None:
    """Compare tables; the order of call paths and metrics does not matter, and all else does."""
    assert a.parameters == b.parameters
    assert np.array_equal(a.points, b.points)
    assert set(a.metrics) == set(b.metrics)
    assert dict(a.units) == dict(b.units)

    def keyed(tree: CallTree) -> dict[tuple[str, ...], int]:
        paths: list[tuple[str, ...]] = []
        for region, parent in zip(tree.region, tree.parent, strict=True):
            own = tree.regions[region]
            paths.append((*(paths[parent] if parent >= 0 else ()), own.name + "\0" + own.mangled))
        assert len(set(paths)) == len(paths)
        return {path: i for i, path in enumerate(paths)}

    first, second = keyed(a.tree), keyed(b.tree)
    assert set(first) == set(second)
    for path, i in first.items():
        region, other = a.tree.regions[a.tree.region[i]], b.tree.regions[b.tree.region[second[path]]]
        assert region == other
        for metric in a.metrics:
            assert np.array_equal(a.values[metric][i], b.values[metric][second[path]], equal_nan=True)


def damage(file: Path, cut: int, insert: str, length: int) -> None:
    """Put a text in the place of a part of a file."""
    content = file.read_text()
    content = content[:cut] + insert + content[cut + length :]
    file.write_bytes(content.encode("utf-8", "surrogatepass"))


def read_if_possible(file: Path, kind: str) -> None:
    """Read a file, as the format that it seems to be and as the one that it was: a table of numbers, or a refusal."""
    for format in (None, kind):
        try:
            read = read_experiment(file, format)
        except FormatError:
            continue
        assert not any(np.isinf(values).any() for values in read.values.values())
        assert np.isfinite(read.points).all()
