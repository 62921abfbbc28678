"""Random profiles for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from buran.profiles.cubex_write import LARGEST_COUNT
from buran.profiles.metrics import METRICS
from buran.profiles.profile import CallTree, Location, Profile, Region
from buran.profiles.regroup import preorder

NAMES = st.one_of(
    st.sampled_from(
        [
            "main",
            "MPI_Allreduce",
            "std::vector<std::pair<int, double>, A<&x> >::operator->() const",
            "quote\"d's & <b>",
            "größe(\u4f60\u597d)",
            "operator<<(std::ostream&, char)",
            " lead and trail ",
            "]]>",
            "&amp;",
        ]
    ),
    st.text(
        st.characters(exclude_categories=("Cc", "Cs", "Cn", "Zl", "Zp"), exclude_characters="\ufffe\uffff"),
        min_size=1,
        max_size=12,
    ),
)
COUNTS = st.integers(0, LARGEST_COUNT)
TIMES = st.floats(0, 1e12, allow_subnormal=False)


@st.composite
def regions(draw: st.DrawFn) -> Region:
    paradigm = draw(st.sampled_from(["compiler", "mpi", "openmp", "user", "measurement"]))
    return Region(
        draw(NAMES),
        draw(NAMES),
        draw(st.sampled_from(["", "src/a b.cpp"])),
        draw(st.integers(0, 9)),
        paradigm,
    )


@st.composite
def trees(draw: st.DrawFn, max_roots: int = 2, max_size: int = 12) -> CallTree:
    own = tuple(draw(st.lists(regions(), min_size=1, max_size=5)))
    size = draw(st.integers(1, max_size))
    roots = draw(st.integers(1, max_roots))
    parent = np.array([-1 if i < roots else draw(st.integers(0, i - 1)) for i in range(size)], dtype=np.int64)
    order = preorder(parent)
    index = np.argsort(order)
    parent = parent[order]
    region = draw(st.lists(st.integers(0, len(own) - 1), min_size=size, max_size=size))
    return CallTree(own, np.array(region, dtype=np.int64), np.where(parent < 0, -1, index[parent]))


@st.composite
def profiles(draw: st.DrawFn, max_roots: int = 2) -> Profile:
    tree = draw(trees(max_roots))
    places = draw(st.sets(st.tuples(st.integers(0, 6), st.integers(0, 2)), min_size=1, max_size=5))
    locations = tuple(Location(*place) for place in sorted(places))
    names = draw(st.lists(st.sampled_from(sorted(METRICS)), min_size=1, max_size=5, unique=True))
    values = {}
    for name in names:
        numbers = COUNTS if METRICS[name].dtype == "UINT64" else TIMES
        dtype = np.uint64 if METRICS[name].dtype == "UINT64" else np.float64
        size = len(tree) * len(locations)
        flat = draw(st.lists(numbers, min_size=size, max_size=size))
        values[name] = np.array(flat, dtype=dtype).reshape(len(tree), len(locations))
    attributes = draw(st.dictionaries(NAMES.map(lambda name: "x " + name), NAMES, max_size=3))
    return Profile(tree, locations, {name: METRICS[name] for name in names}, values, attributes)
