from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.profiles.metrics import METRICS, Metric
from buran.profiles.profile import CallTree, Location, Profile, Region
from buran.profiles.regroup import TreeUnion, combine, fold, on_one_tree, preorder, project
from profiles import profiles, trees


def tree_of(*paths: str, mangled: bool = True) -> CallTree:
    """Make a tree of paths such as ``main/solve``; parents come first."""
    names = sorted({path.split("/")[-1] for path in paths})
    regions = tuple(
        Region(name, "_Z" + name if mangled else "", paradigm="mpi" if name.startswith("MPI_") else "compiler")
        for name in names
    )
    region = [names.index(path.split("/")[-1]) for path in paths]
    parent = [paths.index(path.rpartition("/")[0]) if "/" in path else -1 for path in paths]
    return CallTree(regions, np.array(region, dtype=np.int64), np.array(parent, dtype=np.int64))


def profile_of(tree: CallTree, **values: list[float]) -> Profile:
    minimum = Metric("min_time", "sec", "exclusive", "MINDOUBLE")
    metrics = {name: METRICS.get(name, minimum) for name in values}
    arrays = {
        name: np.array(given, dtype=np.uint64 if metrics[name].dtype == "UINT64" else float)[:, None]
        for name, given in values.items()
    }
    return Profile(tree, (Location(0),), metrics, arrays, {})


@given(st.lists(trees(), min_size=1, max_size=3))
def test_a_union_holds_every_call_path_once_and_in_preorder(given: list[CallTree]) -> None:
    union = TreeUnion(by_name=True)
    numbers = [union.add(tree) for tree in given]
    tree, index = union.arrange()
    assert np.array_equal(preorder(tree.parent), np.arange(len(tree)))
    assert len(
        {(parent, tree.regions[region].name) for parent, region in zip(tree.parent, tree.region, strict=True)}
    ) == len(tree)
    assert set(tree.names) == {name for one in given for name in one.names}
    for one, number in zip(given, numbers, strict=True):
        assert [tree.names[i] for i in index[number]] == list(one.names)


def test_regions_match_by_mangled_name_or_else_by_name() -> None:
    union = TreeUnion()
    first = union.add(tree_of("main", "main/a", mangled=False))
    second = union.add(tree_of("main", "main/a"))
    other = CallTree((Region("main", "_Zmain"), Region("a", "_Zother")), np.array([0, 1]), np.array([-1, 0]))
    third = union.add(other)
    tree, index = union.arrange()
    assert np.array_equal(first, second)
    assert len(tree) == 3
    assert [region.mangled for region in tree.regions] == ["_Za", "_Zmain", "_Zother"] or len(tree.regions) == 3
    assert index[third].tolist()[0] == index[first].tolist()[0]


@pytest.mark.parametrize(("how", "expected"), [("add", [5, 0, 7]), ("min", [2, 0, 7]), ("max", [3, 0, 7])])
def test_rows_combine(how: str, expected: list[float]) -> None:
    values = np.array([[2.0], [3.0], [7.0], [0.0]])
    out = combine(values, np.array([0, 0, 2, 0]), 3, how)  # type: ignore[arg-type]
    assert out[:, 0].tolist() == expected


def test_project_folds_work_into_the_caller_but_not_visits() -> None:
    tree = tree_of("main", "main/a", "main/a/c", "main/a/MPI_Send", "main/b", "main/b/c", "main/b/c/d", "main/c")
    profile = profile_of(
        tree,
        visits=[1, 2, 3, 4, 5, 6, 7, 8],
        basic_blocks=[1, 10, 100, 1000, 10**4, 10**5, 10**6, 10**7],
        bytes_sent=[0, 0, 0, 64, 0, 0, 0, 0],
        time=[20, 5, 2, 1, 9, 8, 7, 1],
        min_time=[20, 5, 2, 1, 9, 8, 7, 1],
    )
    small = project(profile, lambda region: region.name in ("main", "c"))
    at = {name.replace("->", "/"): i for i, name in enumerate(small.tree.names)}
    assert set(at) == {"main", "main/c", "main/MPI_Send"}
    rows = [at["main"], at["main/c"], at["main/MPI_Send"]]
    assert small.values["basic_blocks"][rows, 0].tolist() == [10011, 11100100, 1000]
    assert small.values["visits"][rows, 0].tolist() == [1, 17, 4]
    assert small.values["bytes_sent"][rows, 0].tolist() == [0, 0, 64]
    assert small.values["time"][rows, 0].tolist() == [20, 11, 1]
    assert small.values["min_time"][rows, 0].tolist() == [20, 1, 1]
    assert small.values["basic_blocks"].dtype == np.uint64


@given(profiles(max_roots=2), st.data())
def test_projecting_keeps_sums_and_is_idempotent(profile: Profile, data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    time = profile.tree.inclusive(rng.integers(0, 99, (len(profile.tree), 1)).astype(float))
    work = rng.integers(0, 99, (len(profile.tree), 1)).astype(np.uint64)
    given_profile = Profile(
        profile.tree,
        (Location(0),),
        {name: METRICS[name] for name in ("time", "basic_blocks")},
        {"time": time, "basic_blocks": work},
        {},
    )
    names = {region.mangled for region in profile.tree.regions if data.draw(st.booleans())}
    small = project(given_profile, lambda region: region.mangled in names)
    assert small.values["basic_blocks"].sum() == work.sum()
    assert small.exclusive("time").sum() == given_profile.exclusive("time").sum()
    for region, parent in zip(small.tree.region, small.tree.parent, strict=True):
        own = small.tree.regions[region]
        assert parent < 0 or own.mangled in names or own.paradigm == "mpi"
    again = project(small, lambda region: region.mangled in names)
    assert again.tree.names == small.tree.names
    assert all(np.array_equal(again.values[name], small.values[name]) for name in small.values)


def test_a_long_chain_folds_at_once() -> None:
    size = 5000
    tree = CallTree((Region("f"), Region("g")), np.arange(size) % 2, np.arange(-1, size - 1))
    folding = fold(tree, np.array([False, False]))
    assert len(folding.tree) == 1 and not folding.target.any()


def test_keep_must_fit_the_regions() -> None:
    with pytest.raises(ValueError, match="regions"):
        fold(tree_of("main"), np.array([True, False]))


def test_profiles_on_one_tree() -> None:
    a = profile_of(tree_of("main", "main/a"), visits=[1, 2])
    b = profile_of(tree_of("main", "main/b", "main/a"), visits=[3, 4, 5])
    one, two = on_one_tree([a, b])
    assert one.tree is two.tree
    assert dict(zip(one.tree.names, one.values["visits"][:, 0].tolist(), strict=True)) == {
        "main": 1, "main->a": 2, "main->b": 0
    }  # fmt: skip
    assert dict(zip(two.tree.names, two.values["visits"][:, 0].tolist(), strict=True)) == {
        "main": 3, "main->a": 5, "main->b": 4
    }  # fmt: skip
