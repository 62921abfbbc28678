"""Models of reuse distances: of made-up modes whose growth is known, from points that fit into the caches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buran.plugins.memory.distances import DistanceModels, distance_models
from buran.plugins.memory.laws import counts_of
from buran.plugins.memory.reuse import BINS, LEAST_DISTANCE, LINE, NEVER

SMALL = np.array([8.0, 12.0, 16.0, 20.0, 24.0])


def histogram(*modes):
    """Shape (bin,): of modes that are given as number of accesses and largest distance, spread over half a doubling."""
    out = np.zeros(BINS)
    for accesses, largest in modes:
        if not np.isfinite(largest):
            out[NEVER] += accesses
            continue
        shares = np.arange(1.0, 101.0)
        distances = largest * np.geomspace(0.7, 1.0, 100)
        bins = np.searchsorted(LEAST_DISTANCE[:NEVER], distances, side="right") - 1
        np.add.at(out, bins, accesses * shares / shares.sum())
    return out


def sweep(n):
    """Lines of rows, of planes, and of two arrays that are swept again and again."""
    return histogram((20 * n**3, 2 * n), (4 * n**3, 8 * n**2), (3 * n**3, 2 * n**3), (2 * n**3, np.inf))


def models_along(values, shape=sweep):
    points = np.asarray(values, dtype=float)[:, None]
    accesses = np.array([[shape(n) for n in values]])
    return distance_models(points, accesses, ("n",), ("main->sweep",))


@pytest.fixture(scope="module")
def swept() -> DistanceModels:
    return models_along(SMALL)


@pytest.mark.parametrize("n", [48.0, 96.0])
@pytest.mark.parametrize("cache_bytes", [2**15, 2**18, 2**20, 2**23])
def test_misses_follow_at_points_that_no_longer_fit(swept, n, cache_bytes):
    lines = cache_bytes / LINE
    rank = np.linspace(0, 1, 10001)  # the shape of `histogram`, without bins

    def share(largest):
        return np.interp(np.log(lines / largest), np.log(0.7) * (1 - rank), 1 - rank**2, left=1.0, right=0.0)

    expected = 20 * n**3 * share(2 * n) + 4 * n**3 * share(8 * n**2) + 3 * n**3 * share(2 * n**3) + 2 * n**3
    assert swept.misses(np.array([[n]]), cache_bytes)[0, 0] == pytest.approx(expected, rel=0.1)


def test_a_few_accesses_of_a_thin_sample_tell_no_steep_growth():
    """Measured on a function that gathers times once: 28 to 64 accesses, of which up to one line in 8 was looked at."""
    points = np.array([[1.0, 32768], [1, 65536], [1, 131072], [2, 32768], [2, 65536]])
    seen: tuple[dict[int, float], ...] = (
        {0: 18, 1: 6, 7: 8, 9: 2, 17: 9, 18: 10, 51: 1},
        {0: 8, 9: 4, 15: 4, 17: 12},
        {0: 32, 17: 8, 19: 16, 59: 8},
        {0: 13.5, 1: 6, 7: 8, 9: 2, 17: 9, 18: 9.5, 46: 1.5},
        {0: 20, 9: 2, 17: 8, 18: 10, 19: 4, 49: 4},
    )
    accesses = np.zeros((1, len(points), BINS))
    for point, bins in enumerate(seen):
        accesses[0, point, list(bins)] = list(bins.values())
    found = distance_models(points, accesses, ("p", "n"), ("main->gather",), np.array([1.0, 4, 8, 1, 4]))
    assert found.misses(np.array([[2.0, 4194304]]), 2**21)[0, 0] < 1e5  # and not 8e7


def test_a_cliff_is_placed_before_anything_has_missed(swept):
    line = np.geomspace(8, 200, 100)[:, None]
    size = 2 * 50.0**3 * LINE  # the arrays fill it at n = 50; no point that was measured comes near
    places, low, high = swept.leaving(line, 0, size)
    arrays = np.nanargmin(places)
    assert places[arrays] == pytest.approx(50, rel=0.05)
    assert low[arrays] <= places[arrays] <= high[arrays]
    assert swept.far_bytes(np.array([[50.0]]))[arrays, 0] == pytest.approx(size, rel=0.15)


def test_a_cache_that_is_never_or_always_left_has_no_place(swept):
    line = np.geomspace(8, 200, 100)[:, None]
    for size in (64.0, 1e15):
        assert np.isnan(swept.leaving(line, 0, size)[0]).all()


def test_modes_may_overlap():
    def tailed(n):
        """Planes, within the tail of distances between sweeps."""
        tail = sum(histogram((n**3, 2 * n**3 / 2**k)) for k in range(8))
        return histogram((20 * n**3, 4)) + histogram((2 * n**3, n**2)) + tail

    models = models_along(SMALL, tailed)
    at = np.array([[64.0]])
    for cache, expected in ((1024, 10 * 64.0**3), (3 * 64**2, 6 * 64.0**3), (20000, 5 * 64.0**3)):
        assert models.misses(at, cache * LINE)[0, 0] == pytest.approx(expected, rel=0.1)


def test_a_halo_is_a_part_of_the_law():
    values = [12.0, 14.0, 16.0, 20.0, 24.0]
    models = models_along(values, lambda n: histogram((6 * n**3, 3), (n**3, 0.4 * (n + 2) ** 3)))
    line = np.geomspace(12, 200, 200)[:, None]
    places = models.leaving(line, 0, LINE * 0.4 * 98**3)[0]
    assert np.nanmin(places) == pytest.approx(96, rel=0.05)


def test_what_the_sample_does_not_tell_does_not_grow():
    def near(n):
        return histogram((60 * n**3, 3 if n < 16 else 24), (n**3, n**3))

    points = SMALL[:, None]
    accesses = np.array([[near(n) for n in SMALL]])
    models = distance_models(points, accesses, ("n",), ("solve",), np.where(SMALL < 16, 1, 8))
    assert models.misses(np.array([[96.0]]), LINE * 64)[0, 0] == pytest.approx(96.0**3, rel=0.1)


def test_a_part_of_the_points_moves_the_interval(swept):
    cache = 2**16
    low, high = swept.misses_interval(np.array([[40.0]]), cache)
    assert low[0, 0] < swept.misses(np.array([[40.0]]), cache)[0, 0] < high[0, 0]


def test_two_parameters_grow_apart():
    points = np.array([[p, n] for p in (1.0, 2.0, 4.0, 8.0, 16.0) for n in SMALL])
    accesses = np.array([[histogram((30 * n**3 / p, 4 * n), (5 * n**3 / p, 3 * n**3 / p)) for p, n in points]])
    models = distance_models(points, accesses, ("p", "n"), ("solve",))
    at = np.array([[4.0, 64.0]])
    assert models.misses(at, 0.7 * LINE * 3 * 64**3 / 4 / 4)[0, 0] == pytest.approx(5 * 64**3 / 4, rel=0.1)
    assert models.misses(at, 2 * LINE * 3 * 64**3 / 4)[0, 0] < 0.01 * 5 * 64**3 / 4


@pytest.mark.parametrize("seed", range(5))
def test_whether_memory_is_fresh_or_used_again_moves_no_law(seed):
    """Buckets of 0.5 n accesses, none, a part, or all of which are to fresh memory, as an allocator decides."""
    chosen = np.random.default_rng(seed).choice([0.0, 0.25, 0.5, 1.0], 5)
    points = np.array([(1, 1), (1, 2), (2, 1), (1, 4), (2, 2)]) * np.array([1.0, 2.0**20])
    accesses = np.array(
        [
            [
                histogram((0.5 * n * (1 - fresh), n / 3), (0.5 * n * fresh, np.inf))
                for (_, n), fresh in zip(points, chosen, strict=True)
            ]
        ]
    )
    models = distance_models(points, accesses, ("p", "n"), ("fill",), rates=np.full(5, 64.0))
    at = np.array([[2.0, 2.0**25]])
    assert models.misses(at, 2**20)[0, 0] == pytest.approx(2.0**24, rel=0.5)


def test_three_parameters_have_whole_powers():
    points = np.array([[p, n, k] for p in (1.0, 2.0, 4.0) for n in SMALL[:3] for k in (2.0, 4.0, 6.0)])
    accesses = np.array([[histogram((30 * n**3 * k, 4 * n), (5 * n**3 * k, 3 * n**3 / p)) for p, n, k in points]])
    models = distance_models(points, accesses, ("p", "n", "k"), ("solve",))
    at = np.array([[4.0, 48.0, 8.0]])
    assert models.misses(at, LINE * 48**3 / 4)[0, 0] == pytest.approx(5 * 48**3 * 8, rel=0.1)
    assert models.misses(at, LINE * 6 * 48**3 / 4)[0, 0] < 0.01 * 5 * 48**3 * 8


def test_intervals_hold_what_they_are_of(swept):
    at = np.array([[30.0], [60.0]])
    low, high = swept.misses_interval(at, 2**20)
    middle = swept.misses(at, 2**20)
    assert (low <= middle).all() and (middle <= high).all() and (low >= 0).all()


def test_working_sets_are_those_of_accesses_that_miss(swept):
    line = np.geomspace(8, 60, 20)[:, None]
    assert np.isnan(swept.working_sets(line, 1e15)).all()
    sets = swept.working_sets(line, 2**15)
    assert sets[0, -1] == pytest.approx(2 * 60**3 * LINE, rel=0.15) and (np.diff(sets[0]) > 0).all()


def test_call_paths_without_accesses_have_no_misses():
    accesses = np.zeros((3, len(SMALL), BINS))
    accesses[1] = [sweep(n) for n in SMALL]
    models = distance_models(SMALL[:, None], accesses, ("n",), ("main", "sweep", "rest"))
    assert set(models.row.tolist()) == {1}
    misses = models.misses(np.array([[64.0]]), 2**15)
    assert misses[0, 0] == misses[2, 0] == 0 < misses[1, 0]
    nothing = distance_models(SMALL[:, None], 0 * accesses, ("n",), ("main", "sweep", "rest"))
    assert not nothing.misses(SMALL[:, None], 64).any()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31))
def test_any_histogram_has_finite_misses_that_fall_with_the_cache(seed):
    random = np.random.default_rng(seed)
    accesses = random.integers(0, 1000, (2, 5, BINS)) * (random.random((2, 5, BINS)) < 0.1)
    models = distance_models(SMALL[:, None], accesses.astype(float), ("n",), ("a", "b"))
    at = np.array([[48.0]])
    by_size = np.array([models.misses(at, size)[:, 0] for size in (2**10, 2**15, 2**20, 2**25)])
    assert np.isfinite(by_size).all() and (by_size >= 0).all()
    assert (np.diff(by_size, axis=0) <= 1e-9 * by_size[:1]).all()


def test_what_data_decide_does_not_hide_how_distances_grow():
    """As of a solver that stops when it has converged: how often it sweeps follows no law, how far it reaches does."""
    rounds = dict(zip(SMALL, (1.0, 2.1, 2.2, 1.6, 1.5), strict=True))

    def solver(n):
        return rounds.get(n, 2.0) * sweep(n) * (np.arange(BINS) < NEVER) + sweep(n) * (np.arange(BINS) == NEVER)

    models, regular = models_along(SMALL, solver), models_along(SMALL)
    assert models.irregular[0] > 0.1 and regular.irregular[0] == 0
    at = np.array([[48.0]])
    for size in (2**15, 2**20):
        share, expected = (each.misses(at, size)[0, 0] / each.misses(at, 0.0)[0, 0] for each in (models, regular))
        assert share == pytest.approx(expected, rel=0.1)
    (low,), (high,) = (end[:, 0] for end in models.misses_interval(at, 2**20))
    steady = [end[0, 0] for end in regular.misses_interval(at, 2**20)]
    assert low < 0.6 * models.misses(at, 2**20)[0, 0] < 1.6 * models.misses(at, 2**20)[0, 0] < high
    assert steady[0] > low and steady[1] < high


def test_fewer_accesses_at_boundaries_do_not_look_like_steep_growth():
    """As of rows of a sparse matrix, of which those at the boundary of a grid have fewer numbers."""

    def rows(n):
        return histogram(((3 * n - 2) ** 3, 8 * n**2), ((3 * n - 2) ** 3 / 2, 4 * n**3), (n**3, np.inf))

    models = models_along(SMALL, rows)
    at = np.array([[96.0]])
    expected = 1.5 * (3 * 96.0 - 2) ** 3 + 96.0**3
    assert models.misses(at, 0.0)[0, 0] == pytest.approx(expected, rel=0.05)
    written = sum(models.number(mode).evaluate(at)[0] for mode in range(len(models.row)))
    assert written == pytest.approx(models.misses(at, 0.0)[0, 0], rel=1e-6)


def test_distances_that_are_all_the_same_grow_by_the_power_that_they_have():
    """Of one array that is passed in order: each size has one distance, and a bin hides its last fifth."""

    def passes(n):
        out = np.zeros(BINS)
        out[int(np.searchsorted(LEAST_DISTANCE[:NEVER], n**2 / 8, side="right")) - 1] = n**2 / 2
        out[1], out[NEVER] = 16 * n**2, n**2 / 8
        return out

    models = models_along((100.0, 128.0, 160.0, 192.0, 224.0), passes)
    for n in (448.0, 896.0):
        size = n**2 / 8 * LINE  # what it fills
        before, after = models.misses(np.array([[0.85 * n], [1.15 * n]]), size)[0] / np.array([0.85, 1.15]) ** 2
        assert before < 0.3 * n**2 < 0.5 * n**2 < after


def test_with_one_rank_something_is_accessed():
    counts = counts_of(np.array([[1.0, 8.0], [2.0, 8.0], [1.0, 12.0], [1.0, 16.0]]))
    assert {count.log for count in counts} == {-1, 1}  # log2(p) is 0 there
