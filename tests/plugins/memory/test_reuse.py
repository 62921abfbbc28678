"""Sampled reuse distances: of walks whose distances are known, with threads, signals, mapped and unbounded memory."""

import os
import subprocess

import numpy as np
import pytest
from native_programs import HOOK_ALL, PROGRAMS, build, launch, profile_of, toolchain, write_filter
from test_fortran import COMPILERS, with_fortran

from buran.errors import UsageError
from buran.measurement.toolchain.toolchain import GCC_FALLBACK
from buran.measurement.toolchain.wrappers import CC, FC, translate
from buran.plugins.memory.misses import (
    caches_of,
    conflict_share,
    histogram,
    misses,
    misses_of_sets,
    streamed,
    used_sets,
    ways_of,
    with_misses,
)
from buran.plugins.memory.reuse import FAR, FIRST_RATE, FOLLOWED, LAST_RATE, LINE, NEVER, SETS
from buran.plugins.memory.sampling import USUAL_RATE
from buran.profiles.profile import Profile

LINES, ROUNDS = 20_000, 5
TABLE = 65_536  # lines that a thread looks at together, as native/reuse.c has it


def that_samples(compiler):
    found = toolchain(compiler)
    if found.kind == GCC_FALLBACK:
        pytest.skip("gcc has no headers for plugins on this machine")
    return found


@pytest.fixture(scope="module", params=["clang", "gcc"])
def walks(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reuse")
    tools = that_samples(request.param)
    return build("reuse.c", folder / "reuse", tools=tools, filter_file=write_filter(folder, HOOK_ALL), mode="memory")


def accesses(profile: Profile, function: str) -> np.ndarray:
    """Shape (location, bin): of the call paths that end with a function."""
    rows = [row for row, name in enumerate(profile.tree.names) if name.split("->")[-1].split("(")[0] == function]
    return histogram(profile)[rows].sum(axis=0)


@pytest.mark.parametrize("how", ["", "mapped", "file", "pool"])
def test_a_walk_misses_every_cache_that_is_smaller(walks, tmp_path, how):
    profile = profile_of(walks, tmp_path / "run", str(LINES), str(ROUNDS), *filter(None, [how]))
    walk = accesses(profile, "walk")[0]
    assert walk[NEVER] == pytest.approx(LINES, rel=0.01)
    assert walk.sum() == pytest.approx(LINES * ROUNDS, rel=0.01)
    assert misses(walk, 0.8 * LINES * LINE) == pytest.approx(LINES * ROUNDS, rel=0.01)
    assert misses(walk, 1.25 * LINES * LINE) == pytest.approx(LINES, rel=0.01)  # only those never touched before
    assert (profile.attributes[FIRST_RATE], profile.attributes[LAST_RATE]) == ("1", "4")


@pytest.mark.parametrize("compiler", ["clang", "gcc"])
@pytest.mark.parametrize("flags", [("-O0",), ("-O2",), ("-O3", "-march=native")], ids=" ".join)
def test_neighbours_share_a_line_and_copies_touch_all_of_theirs(tmp_path, compiler, flags):
    binary = build(
        "reuse.c", tmp_path / "reuse", tools=that_samples(compiler), filter_file=write_filter(tmp_path, HOOK_ALL),
        mode="memory", flags=flags,
    )  # fmt: skip
    profile = profile_of(binary, tmp_path / "run", str(LINES), "1", "values")
    added = accesses(profile, "add_up")[0]
    assert misses(added, LINES * LINE / 2) == pytest.approx(LINES, rel=0.02)
    assert misses(added, LINES * LINE * 2) == 0
    copied = accesses(profile, "copy")[0]
    assert copied.sum() == pytest.approx(LINES, rel=0.02)  # half of it is read, the other half written


@pytest.mark.parametrize("lines", [4000, 8 * LINES])
def test_what_passes_memory_in_its_order_is_a_stream_and_random_order_is_none(walks, tmp_path, lines):
    shares = []
    for function, how in (("walk", []), ("jump", ["scattered"])):
        profile = profile_of(walks, tmp_path / function, str(lines), "2", *how)
        (row,) = [row for row, name in enumerate(profile.tree.names) if name.split("->")[-1].startswith(function)]
        far = profile.values[FAR][row]
        followed = profile.values[FOLLOWED][row] if FOLLOWED in profile.values else np.zeros(1)  # none, none named
        assert float(far[0]) == pytest.approx(2 * lines, rel=0.1)
        shares.append(streamed(far, followed)[0])
    assert shares[0] > 0.98 and shares[1] < 0.05


@pytest.mark.parametrize("rate", ["1", "4"])
def test_neighbours_that_ask_together_touch_both_of_their_lines(walks, tmp_path, monkeypatch, rate):
    monkeypatch.setenv("BURAN_REUSE_RATE", rate)
    profile = profile_of(walks, tmp_path / "run", str(LINES), "1", "records")
    visited = accesses(profile, "visit")[0]
    assert visited.sum() == pytest.approx(2 * (LINES - 1), rel=0.02)
    assert visited[NEVER] == pytest.approx(LINES, rel=0.02)


@pytest.mark.parametrize("rate", ["1", "4"])
@pytest.mark.parametrize(
    ("apart", "missed", "sets"),
    [
        (LINE, 0, SETS),
        (4096, 1, 1),
        (2048, 1, 2),
        (1024, 1, 4),
        (512, 1, 8),
        (256, 0, SETS / 4),
        (4096 + LINE, 0, SETS),
    ],
)
def test_lines_that_crowd_into_few_sets_miss(walks, tmp_path, monkeypatch, apart, missed, sets, rate):
    """100 lines of a cache that has room for 512: in a set of their own each 8 places."""
    monkeypatch.setenv("BURAN_REUSE_RATE", rate)
    profile = profile_of(walks, tmp_path / "run", "100", "4000", "column", str(apart))
    (row,) = [row for row, name in enumerate(profile.tree.names) if name.split("->")[-1] == "column"]
    assert conflict_share(profile, 8)[row] == pytest.approx(missed, abs=0.01)
    assert conflict_share(profile, 16)[row] == pytest.approx(float(100 / sets > 16), abs=0.01)
    assert used_sets(profile)[row] == pytest.approx(sets if 100 / sets > 5 else SETS, rel=0.1, abs=2.1)
    assert misses(accesses(profile, "column")[0], 512 * LINE) <= 200  # a cache of any lines keeps them
    of_sets = misses_of_sets(profile, 512 * LINE, 8)[row].sum()
    assert of_sets >= 0.98 * missed * accesses(profile, "column")[0].sum()


def test_lines_at_any_place_are_as_in_a_cache_of_any_lines(walks, tmp_path):
    """Rounds over half and twice of a cache, in its order and in another one."""
    for lines in (256, 1024):
        for how in ("", "scattered"):
            profile = profile_of(walks, tmp_path / f"{how}{lines}", str(lines), "400", *filter(None, [how]))
            assert np.abs(conflict_share(profile, 8)).max() <= 0.01


def test_each_thread_has_distances_of_its_own(walks, tmp_path):
    profile = profile_of(walks, tmp_path / "run", str(LINES), str(ROUNDS), "threads")
    walk = accesses(profile, "walk")
    assert not walk[0].any()
    for own in walk[1:]:
        assert own[NEVER] == pytest.approx(LINES / 2, rel=0.02)
        assert misses(own, 0.3 * LINES * LINE) == pytest.approx(ROUNDS * LINES / 2, rel=0.02)
        assert misses(own, 0.7 * LINES * LINE) == own[NEVER]


def test_signal_handlers_that_touch_memory_do_not_disturb(walks, tmp_path):
    profile = profile_of(walks, tmp_path / "run", str(LINES), "1", "signals")
    walk = accesses(profile, "walk")[0]
    assert walk[NEVER] == pytest.approx(LINES, rel=0.01)
    assert misses(walk, 1.25 * LINES * LINE) == walk[NEVER]


def test_addresses_that_never_repeat_miss_every_cache(walks, tmp_path):
    profile = profile_of(walks, tmp_path / "run", str(LINES), str(ROUNDS), "once")
    walk = accesses(profile, "walk")[0]
    assert walk[:NEVER].sum() == 0
    assert misses(walk, 1e15) == walk[NEVER] == pytest.approx(LINES, rel=0.01)


@pytest.mark.slow
def test_a_program_that_is_too_large_lowers_the_rate_and_says_so(walks, tmp_path, monkeypatch):
    monkeypatch.setenv("BURAN_REUSE_RATE", "1")
    lines, rounds = 3 * TABLE, 4
    profile = profile_of(walks, tmp_path / "run", str(lines), str(rounds))
    assert (profile.attributes[FIRST_RATE], profile.attributes[LAST_RATE]) == ("1", "4")
    assert int(profile.attributes["memory_bytes_per_rank"]) < 4_000_000
    walk = accesses(profile, "walk")[0]
    assert walk[NEVER] == pytest.approx(lines, rel=0.02)
    assert misses(walk, 0.8 * lines * LINE) == pytest.approx(rounds * lines, rel=0.02)
    assert misses(walk, 1.25 * lines * LINE) == walk[NEVER]


def test_small_problems_are_seen_whole_and_large_ones_at_the_usual_rate(walks, tmp_path):
    small = profile_of(walks, tmp_path / "small", "2000", str(ROUNDS))
    assert small.attributes[LAST_RATE] == "1"
    walk = accesses(small, "walk")[0]
    assert walk[NEVER] == 2000 and walk.sum() == ROUNDS * 2000
    large = profile_of(walks, tmp_path / "large", str(8 * TABLE), "2")
    assert large.attributes[LAST_RATE] == str(USUAL_RATE)
    walk = accesses(large, "walk")[0]
    assert walk[NEVER] == pytest.approx(8 * TABLE, rel=0.05)
    assert misses(walk, 4 * TABLE * LINE) == pytest.approx(2 * 8 * TABLE, rel=0.05)


def test_a_small_problem_that_is_done_for_long_is_seen_in_part(walks, tmp_path):
    lines, rounds = 4000, 1500
    profile = profile_of(walks, tmp_path / "run", str(lines), str(rounds))
    assert int(profile.attributes[LAST_RATE]) in (8, 16)  # at least 256 lines are left
    walk = accesses(profile, "walk")[0]
    assert walk.sum() == pytest.approx(lines * rounds, rel=0.15)
    assert misses(walk, 0.7 * lines * LINE) == pytest.approx(walk.sum(), rel=0.01)
    assert misses(walk, 1.4 * lines * LINE) < 0.01 * walk.sum()


@pytest.mark.parametrize("compiler", ["clang", "gcc"])
@pytest.mark.parametrize("flags", [("-O0",), ("-O2",), ("-O3", "-march=native")], ids=" ".join)
def test_runs_that_sample_tell_the_counts_too(tmp_path, compiler, flags):
    profiles = {}
    for mode in ("effort", "memory"):
        binary = build(
            "reuse.c", tmp_path / mode, tools=that_samples(compiler), filter_file=write_filter(tmp_path, HOOK_ALL),
            mode=mode, flags=flags,
        )  # fmt: skip
        profiles[mode] = profile_of(binary, tmp_path / f"run-{mode}", "2000", "3")
    effort, memory = profiles["effort"], profiles["memory"]
    assert len(effort.tree) == len(memory.tree)
    for name in ("visits", "basic_blocks", "loads", "stores", "bytes_loaded", "bytes_stored", "flops"):
        np.testing.assert_array_equal(effort.exclusive(name), memory.exclusive(name), err_msg=name)


def test_ten_runs_tell_the_same_distances_up_to_the_sample(walks, tmp_path):
    """Addresses differ from run to run, and with them the sample; what is seen whole does not differ at all."""
    walked = {
        lines: np.array(
            [accesses(profile_of(walks, tmp_path / f"{lines}-{run}", str(lines), "5"), "walk")[0] for run in range(10)]
        )
        for lines in (4000, LINES)
    }
    assert (walked[4000] == walked[4000][0]).all()
    missed = misses(walked[LINES], LINES * LINE / 2)
    assert missed.std() < 0.02 * missed.mean()


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [
        ("clang", ("-O2",)),
        ("clang", ("-O2", "-fno-vectorize")),
        ("clang", ("-O3",)),
        ("gcc", ("-O2",)),
        ("gcc", ("-O3",)),
    ],
)
def test_loops_that_ask_beforehand_tell_what_each_of_their_accesses_would(tmp_path, monkeypatch, compiler, flags):
    """Without optimisation, each access asks for itself."""
    monkeypatch.setenv("BURAN_REUSE_RATE", "1")
    every = [flags, ("-O0",), ("-O1", "-fno-unroll-loops")]
    told = []
    for name, chosen in zip("abc", every, strict=True):
        rules, tools = write_filter(tmp_path, HOOK_ALL), that_samples(compiler)
        binary = build("loops.c", tmp_path / name, tools=tools, filter_file=rules, mode="memory", flags=chosen)
        told.append(profile_of(binary, tmp_path / f"run {name}", "3001"))
    for function in ("forward", "backward", "in_bytes", "records", "triangle", "columns"):
        beforehand, each, rolled = (accesses(profile, function)[0] for profile in told)
        assert beforehand[NEVER] == each[NEVER] == rolled[NEVER]
        for lines in (32, 128, 512, 2048):
            assert misses(beforehand, lines * LINE) == pytest.approx(misses(each, lines * LINE), rel=0.01, abs=20)
            assert misses(rolled, lines * LINE) == pytest.approx(misses(each, lines * LINE), rel=0.01, abs=20)
    assert accesses(told[2], "backward")[0].sum() == 3 * 2 * 3001  # each place once, however often it is used


@pytest.mark.parametrize("rate", ["0", "3", "x", "2097152", "-1"])
def test_a_rate_that_is_none_is_refused(walks, tmp_path, monkeypatch, rate):
    monkeypatch.setenv("BURAN_REUSE_RATE", rate)
    done = launch(walks, tmp_path / "run", "10", "1")
    assert done.returncode == 2 and "BURAN_REUSE_RATE: " in done.stderr


def test_misses_stand_in_the_place_of_distances(walks, tmp_path):
    profile = profile_of(walks, tmp_path / "run", str(LINES), str(ROUNDS))
    shown = with_misses(profile, (LINES * LINE // 2, 2 * LINES * LINE))
    assert not any(name.startswith("reuse_bin") for name in shown.values)
    by_level = [float(shown.values[name].sum()) for name in ("misses_level_1", "misses_level_2", "first_touches")]
    assert by_level[0] > 4 * by_level[1] and by_level[1] == by_level[2]
    assert "misses_level_3" not in shown.values
    assert not histogram(shown).any()


@pytest.mark.parametrize(
    ("text", "sizes", "ways"),
    [
        ("1:32768 2:1048576", (32768, 1048576), (None, None)),  # as earlier versions wrote it
        ("1:49152/12 2:1048576/0 3:2097152/16", (49152, 1048576, 2097152), (12, None, 16)),
        ("2:9 1:3", (3, 9), (None, None)),
        ("", (), ()),
        ("2:1048576/16", (), ()),
        ("1:", (), ()),
    ],
)
def test_caches_of_a_machine_that_does_not_tell_all_are_unknown(text, sizes, ways):
    profile = Profile(None, (), {}, {}, {"caches": text} if text else {})
    assert caches_of(profile) == sizes and ways_of(profile) == ways


@pytest.mark.parametrize("mode", ["time", "effort"])
def test_other_builds_sample_nothing(tmp_path, mode):
    binary = build("reuse.c", tmp_path / "reuse", tools=toolchain("clang"), mode=mode)
    symbols = subprocess.run(["nm", binary], capture_output=True, text=True, check=True).stdout
    assert "buran_enter" in symbols
    code = subprocess.run(["objdump", "-d", binary], capture_output=True, text=True, check=True).stdout
    main = code[code.index("<main>:") :].split("\n\n")[0]
    assert "buran_reuse" not in main
    profile = profile_of(binary, tmp_path / "run", "100", "1")
    assert LAST_RATE not in profile.attributes and not histogram(profile).any()


def test_objects_of_another_mode_do_not_link(tmp_path):
    tools = toolchain("clang")
    environment = {**os.environ, "BURAN_PLUGIN_MODE": "time", "BURAN_FILTER": ""}
    objects = translate(
        ["-c", str(PROGRAMS / "reuse.c"), "-o", str(tmp_path / "a.o")], wrapper=CC, mode="time", toolchain=tools
    )
    subprocess.run(objects, env=environment, check=True)
    link = translate([str(tmp_path / "a.o"), "-o", str(tmp_path / "a")], wrapper=CC, mode="memory", toolchain=tools)
    done = subprocess.run(link, env={**environment, "BURAN_PLUGIN_MODE": "memory"}, capture_output=True, text=True)
    assert done.returncode and "buran_objects_are_for_time" in done.stderr


@pytest.mark.parametrize("wrapper", [CC, FC])
def test_without_a_plugin_nothing_is_sampled(wrapper):
    with pytest.raises(UsageError, match="sampled"):
        translate(["-c", "a.c"], wrapper=wrapper, mode="memory", toolchain=toolchain(GCC_FALLBACK))


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("flags", [("-O0",), ("-O3",)], ids=" ".join)
def test_accesses_of_fortran_arrays_are_sampled(compiler, flags, tmp_path):
    """A matrix of 1.1 MiB: in the order of memory one access of eight is far, across it all are."""
    tools, n = with_fortran(compiler), 376
    binary = build(
        "walks.f90", tmp_path / "walks", tools=tools, filter_file=write_filter(tmp_path, HOOK_ALL), mode="memory",
        flags=(*flags, f"-J{tmp_path}", "-fno-frontend-optimize", "-fno-inline", "-fno-loop-interchange"),
    )  # fmt: skip
    profile = profile_of(binary, tmp_path / "run", str(n))
    bins = histogram(profile)
    found = {name.split("->")[-1].split("::")[-1]: bins[row].sum(axis=0) for row, name in enumerate(profile.tree.names)}
    lines = n * n / 8
    assert misses(found["along"], 2**19) == pytest.approx(lines, rel=0.05)
    assert misses(found["across"], n * LINE / 2) == pytest.approx(n * n, rel=0.05)
    assert misses(found["across"], 4 * n * LINE) == pytest.approx(lines, rel=0.05)
    assert misses(found["sections"], 2**19) == pytest.approx(2 * lines, rel=0.05)
