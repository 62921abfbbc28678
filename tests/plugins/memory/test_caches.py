"""Caches in the report: from made-up profiles of runs that sampled accesses to memory."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from buran.errors import ConfigError
from buran.modeling.fit import fit_models
from buran.modeling.pmnf.model_set import ModelSet
from buran.plugins.memory.caches import cache_table, cache_text, header_of, rows_of, size_text
from buran.plugins.memory.misses import with_misses
from buran.plugins.memory.reuse import (
    BIN_METRICS,
    CROWDED,
    LEAST_DISTANCE,
    LINE,
    NEVER,
    OF_ANY_SET,
    OF_OWN_SET,
    REUSE_METRICS,
)
from buran.plugins.memory.sampling import crowded, crowds_in_words, misses_of_runs, ways_of_caches
from buran.profiles.profile import CallTree, Location, Profile, Region
from buran.reporting.html import render_page
from buran.workflow import collect
from made_up import data_of, headline_about, report

CACHES = (2**15, 2**23)
VALUES = (8, 12, 16, 20, 24)


def profile_of(n: int) -> Profile:
    """A program that sweeps 2 n^3 lines, n^3 times, and a function that stays in a row."""
    tree = CallTree((Region("main"), Region("sweep(double*)"), Region("row")), np.arange(3), np.array([-1, 0, 0]))
    values = {}
    for row, number, distance in ((1, n**3, 2 * n**3), (1, n**2, np.inf), (2, 5 * n**3, 2 * n)):
        place = NEVER if np.isinf(distance) else int(np.searchsorted(LEAST_DISTANCE[:NEVER], distance, "right")) - 1
        name = [*BIN_METRICS][place]
        values.setdefault(name, np.zeros((3, 1), dtype=np.uint64))[row, 0] += number
    return Profile(tree, (Location(0),), {name: BIN_METRICS[name] for name in values}, values, {})


def crowding(n: int) -> Profile:
    """The same, whose rows are in one set where n is a power of two: each comes after 15 lines of its set."""
    profile, is_power = profile_of(n), n & (n - 1) == 0
    watched = {OF_ANY_SET[0]: 2000, OF_OWN_SET[15 if is_power else 0]: 1900, OF_OWN_SET[0 if is_power else 1]: 100}
    watched |= dict.fromkeys(CROWDED, 16 * 1900) if is_power else {}
    values = {name: np.array([[0], [0], [number]], dtype=np.uint64) for name, number in watched.items()}
    metrics = {name: REUSE_METRICS[name] for name in values}
    return replace(profile, values={**profile.values, **values}, metrics={**profile.metrics, **metrics})


def table_of(values=VALUES, target=100, models=None, divided=()):
    runs = [({"n": n}, 0, profile_of(n)) for n in values]
    campaign = SimpleNamespace(target={"n": target})
    return cache_table(runs, CACHES, campaign, models or {}, divided)


def test_misses_and_the_place_where_a_cache_is_left_follow_from_points_that_fit():
    found = table_of()
    (row,) = found.rows  # the other function has no misses of level 2
    assert row.call_path == "main->sweep(double*)"
    assert row.misses == pytest.approx([100**3, 100**3], rel=0.05)
    places = {leaving.level: leaving for leaving in row.leaving}
    for level, size in enumerate(CACHES, start=1):
        expected = (size / LINE / 2) ** (1 / 3)
        if expected < VALUES[0]:  # left before the first point
            assert level not in places
        else:
            assert places[level].value == pytest.approx(expected, rel=0.1)
            assert places[level].interval[0] <= places[level].value <= places[level].interval[1]
            assert places[level].share > 0.9 and "n^3" in places[level].bytes
    assert row.intensity is None and found.parameter == "n" and found.largest == 24


def test_ranks_that_share_a_cache_leave_it_earlier():
    def own(points):
        return np.ones(len(points))

    def shared_by_more(points):
        return np.clip(points[:, 0] / 10, 1.0, 4.0)  # more ranks on a node where n is large

    found = table_of(divided=(own, shared_by_more))
    (row,), (alone,) = found.rows, table_of().rows
    (shared,), (whole,) = ([each for each in some.leaving if each.level == 2] for some in (row, alone))
    # 2 n^3 lines fill CACHES[1] / (n / 10)
    assert shared.value == pytest.approx((CACHES[1] / LINE * 5) ** (1 / 4), rel=0.1) and shared.value < whole.value
    assert shared.ranks == pytest.approx(shared.value / 10, rel=0.05) and whole.ranks == 1
    text = f"{header_of(found)} {rows_of(found)}"
    assert f"for {shared.ranks:.3g} ranks" in text and "2 MiB of 8 MiB" in text


def test_flops_by_bytes_of_memory():
    flops = fit_models(np.array([[float(n)] for n in VALUES]), np.array([[64.0 * n**3 for n in VALUES]]))
    paths, points = ("main->sweep(double*)",), tuple((float(n),) for n in VALUES)
    counted = ModelSet(("n",), "flops", "", paths, flops.models, "mean", "median", points)
    assert table_of(models={"flops": counted}).rows[0].intensity == pytest.approx(1.0, rel=0.05)


def test_conflicts_at_some_sizes_are_said_and_no_law_of_growth():
    found = {n: crowded(crowding(n), 2**15, 8, f"n={n}") for n in VALUES}
    assert [n for n in VALUES if found[n]] == [8, 16]
    (path, crowd), *others = found[8]
    assert not others and path == "main->row"
    assert (crowd.missed, crowd.missed_of_any, crowd.sets) == (pytest.approx(0.95), 0, 1)
    words = crowds_in_words(path, [crowd, found[16][0][1]])
    assert "about 1 of the 64 sets" in words and "n=8: 95 %" in words and "at n=16" in words
    assert not crowded(crowding(8), 2**15, 16) and not crowded(crowding(8), 2**15, None)  # 32 sets, or any lines
    for n in VALUES:  # so metrics are as without, and what models of them say
        plain, told = (with_misses(profile, CACHES) for profile in (profile_of(n), crowding(n)))
        assert plain.values.keys() == told.values.keys()
        assert all((plain.values[name] == told.values[name]).all() for name in plain.values)
    runs = [({"n": n}, 0, crowding(n)) for n in VALUES]
    assert cache_table(runs, CACHES, SimpleNamespace(target={"n": 64}), {}) == table_of(target=64)


def test_few_watched_accesses_tell_no_conflicts():
    profile = crowding(8)
    watched = {name: profile.values[name] // 4 for name in (*OF_ANY_SET, *OF_OWN_SET) if name in profile.values}
    assert not crowded(replace(profile, values={**profile.values, **watched}), 2**15, 8)


@pytest.mark.parametrize(
    ("named", "sizes", "ways"),
    [((), (32768, 1048576), (8, 16)), ((12,), (49152,), (12,)), ((), (49152, 1048576), ())],
)
def test_ways_are_those_of_the_campaign_or_of_a_machine_with_these_caches(named, sizes, ways):
    profile = replace(profile_of(8), attributes={"caches": "1:32768/8 2:1048576/16"})
    assert ways_of_caches(profile, sizes, named) == ways


def test_few_points_tell_nothing():
    assert table_of(VALUES[:2]) is None
    assert cache_table([], CACHES, SimpleNamespace(target={"n": 9}), {}) is None


def test_the_section_of_the_report():
    found = table_of()
    text = cache_text(found, {"n": 100})
    assert "Caches at n=100" in text and "; " not in text and "level 2 at n = " in text
    assert "main->sweep " in text
    said = report(None, further={"caches": found})
    data = data_of(said, None)
    assert data["caches"]["lines"][0][0] == "main->sweep" and len(data["caches"]["values"]) == 100
    shown = render_page(said, data, {}, "", headline_about(said))
    assert 'id="caches"' in shown and "misses of level 2, 8 MiB" in shown
    assert 'id="caches"' not in render_page(
        report(None), data_of(report(None), None), {}, "", headline_about(report(None))
    )


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (("", ""), "the machine reports none"),
        (("2:1048576", "2:1048576"), "the machine reports none"),  # nothing of level 1
        (("1:32768", "1:49152"), "different caches"),
    ],
)
def test_sizes_that_are_not_known_are_asked_for(monkeypatch, told, why):
    runs = [
        ({"n": n}, 0, replace(profile_of(n), attributes={"caches": text}))
        for n, text in zip((8, 12), told, strict=True)
    ]
    monkeypatch.setattr(collect, "profiles_of", lambda *_: iter(runs))
    with pytest.raises(ConfigError, match="sizes") as refused:
        [*misses_of_runs([], ["n"], None)]
    assert why in str(refused.value) and "memory.caches_kib" in str(refused.value)
    assert len([*misses_of_runs([], ["n"], [32, 1024])]) == 2


@pytest.mark.parametrize(("size", "text"), [(100, "100 bytes"), (2**15, "32 KiB"), (1.5 * 2**20, "1.5 MiB")])
def test_sizes_are_said_in_words(size, text):
    assert size_text(size) == text
