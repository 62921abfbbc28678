"""Floating-point operations and accesses to memory of kernels that can be counted by hand."""

from collections.abc import Sequence

import pytest
from native_programs import HOOK_ALL, build, profile_of, table, toolchain, write_filter

from buran.measurement.toolchain.toolchain import GCC_FALLBACK
from buran.plugins.memory.metrics import DETAILS, REQUIREMENTS
from buran.profiles import metrics as known_metrics
from buran.profiles.profile import Profile

pytestmark = pytest.mark.mpi

N = 12


def compiled(compiler, folder, *flags, mode="effort"):
    libraries = ("-Wl,--no-as-needed", "-lm")
    return build(
        "requirements.c",
        folder / "program",
        flags=(*flags, *libraries),
        filter_file=write_filter(folder, HOOK_ALL),
        tools=toolchain(compiler),
        mode=mode,
    )


def requirements(profile: Profile, kernel: str, metrics: Sequence[str] = REQUIREMENTS) -> tuple[int, ...]:
    """Return what the call paths that end with a kernel ask for, of all threads."""
    rows = {metric: table(profile, metric) for metric in metrics}
    paths = [path for path in rows[metrics[0]] if path.split("->")[-1].split("(")[0] == kernel]
    assert paths, kernel
    return tuple(int(sum(sum(rows[metric][path]) for path in paths)) for metric in metrics)


@pytest.mark.parametrize("compiler", ["clang", "gcc"])
@pytest.mark.parametrize("flags", [("-O0",), ("-O2",), ("-O3", "-march=native", "-ffast-math")], ids="".join)
def test_kernels_ask_for_what_their_formulas_say(tmp_path, compiler, flags):
    profile = profile_of(compiled(compiler, tmp_path, *flags), tmp_path / "run", str(N))
    n = N
    expected = {
        # operations, loads, stores, bytes loaded, bytes stored
        "product": (2 * n**3, 2 * n**3, n**2, 16 * n**3, 8 * n**2),
        "scale_add": (2 * n, 2 * n, n, 8 * n, 4 * n),
        "root_of_sum": (2 * n + 2, n, 0, 8 * n, 0),
        "copies": (0, 1, 2, 8 * n, 12 * n),
        "moves": (0, 1, 1, 24, 24),
        "chain": (n, 2 * n, 0, 16 * n, 0),
        "jumps": (n, n, 0, 8 * n, 0),
    }
    if flags != ("-O3", "-march=native", "-ffast-math"):  # which may turn (x + 1) / 2 - 2 into x / 2 - 1.5
        expected |= {"around": (2, 0, 0, 0, 0), "halved": (1, 0, 0, 0, 0)}
    assert {kernel: requirements(profile, kernel) for kernel in expected} == expected
    # Without optimisation n and the pointer are read in every round, as the source says.
    rounds = n if flags == ("-O0",) else 0
    flops, loads, stores, _, stored = requirements(profile, "works")
    assert (flops, stores, stored) == (2 * n, 2, 16)
    assert loads == 2 * n + (2 * (2 * rounds + 1) if rounds else 4)


@pytest.mark.parametrize("compiler", ["clang", "gcc"])
@pytest.mark.parametrize("flags", ["-O0", "-O2"])
def test_kinds_of_operations_are_counted_where_they_are_asked_for(tmp_path, monkeypatch, compiler, flags):
    monkeypatch.setenv("BURAN_REQUIREMENTS", "detailed")
    profile = profile_of(compiled(compiler, tmp_path, flags), tmp_path / "run", str(N))
    n = N
    expected = {
        # additions, multiplications, divisions, roots, single, double, extended, calls
        "product": (n**3, n**3, 0, 0, 0, 2 * n**3, 0, 0),
        "scale_add": (n, n, 0, 0, 2 * n, 0, 0, 0),
        "root_of_sum": (n + 1, 0, n, 1, 0, 2 * n + 2, 0, 0),
        "wide": (n, n, 0, 0, 0, 0, 2 * n, 0),
        "chain": (n, 0, 0, 0, 0, n, 0, 0),
        "calling": (0, 0, 0, 0, 0, 0, 0, n),
    }
    kinds = [name for name in DETAILS if name not in ("branches", "integer_operations")]
    assert {kernel: requirements(profile, kernel, kinds) for kernel in expected} == expected
    assert requirements(profile, "calling", ["branches", "integer_operations"]) == (n + 1, n)
    assert requirements(profile, "product") == (2 * n**3, 2 * n**3, n**2, 16 * n**3, 8 * n**2)


@pytest.mark.parametrize("compiler", ["clang", "gcc"])
def test_other_builds_have_no_kinds(tmp_path, compiler):
    profile = profile_of(compiled(compiler, tmp_path, "-O2"), tmp_path / "run", str(N))
    assert set(REQUIREMENTS) <= set(profile.metrics) and not set(DETAILS) & set(profile.metrics)


@pytest.mark.parametrize("compiler", ["clang", "gcc"])
def test_a_thread_asks_for_its_own(tmp_path, compiler):
    profile = profile_of(compiled(compiler, tmp_path, "-O2"), tmp_path / "run", str(N))
    row = next(row for path, row in table(profile, "flops").items() if path.endswith("works"))
    assert row == [0, N, N]


def test_the_fallback_without_a_plugin_has_no_requirements(tmp_path):
    profile = profile_of(compiled(GCC_FALLBACK, tmp_path, "-O2"), tmp_path / "run", str(N))
    assert "basic_blocks" in profile.metrics
    assert not set(REQUIREMENTS) & set(profile.metrics)


def test_timed_builds_have_no_requirements(tmp_path):
    profile = profile_of(compiled("auto", tmp_path, "-O2", mode="time"), tmp_path / "run", str(N))
    assert not set(REQUIREMENTS) & set(profile.metrics)


def test_requirements_are_exact_and_no_effort() -> None:
    everything = [*REQUIREMENTS, "basic_blocks"]
    assert set(known_metrics.noise_resilient(everything)) == set(everything)
    assert known_metrics.work_metrics(everything) == ("basic_blocks",)  # they grow as the blocks that they stand in
    assert set(known_metrics.reported(everything)) == {"basic_blocks", *REQUIREMENTS}
