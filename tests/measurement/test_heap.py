"""Memory of the heap that functions ask for, in effort builds: with threads, signals, forks and other allocators."""

import pytest
from native_programs import HOOK_ALL, build, profile_of, table, toolchain, write_filter

from buran.measurement.toolchain.toolchain import GCC_FALLBACK

pytestmark = pytest.mark.mpi

N = 1024
NEW = """
#include <vector>
#include <cstdio>
__attribute__((noinline)) double fill(int n) { std::vector<double> v(n, 1.0); return v[n / 2]; }
int main() { return fill(1000) != 1.0; }
"""


def compiled(source, folder, *flags, compiler="auto", mode="effort"):
    return build(
        source, folder / "heap", flags=("-O1", *flags), filter_file=write_filter(folder, HOOK_ALL),
        tools=toolchain(compiler), mode=mode,
    )  # fmt: skip


def by_function(profile, metric):
    return {path.split("->")[-1].split("(")[0]: row for path, row in table(profile, metric).items()}


@pytest.mark.parametrize("compiler", ["clang", "gcc"])
def test_functions_have_what_they_ask_for(tmp_path, compiler):
    profile = profile_of(compiled("heap.c", tmp_path, compiler=compiler), tmp_path / "run", str(N))
    asked = {name: sum(row) for name, row in by_function(profile, "heap_bytes").items()}
    assert (asked["grow"], asked["aligned"], asked["keep"], asked["forks"]) == (28 * N, 7 * N, 1000 * N, 0)
    assert asked["works"] == 6 * N and asked["interrupted"] % (100 * N) == 0 and asked["interrupted"] > 0
    peak = {name: max(row) for name, row in by_function(profile, "heap_peak").items()}
    assert peak["keep"] >= 1000 * N > peak["grow"] >= 20 * N
    assert peak["keep"] <= max(profile.values["heap_peak"][0]) < 2000 * N


def test_new_ends_in_malloc(tmp_path):
    source = tmp_path / "vector.cpp"
    source.write_text(NEW)
    profile = profile_of(compiled(source, tmp_path), tmp_path / "run")
    below = [row for path, row in table(profile, "heap_bytes").items() if "fill(int)" in path]
    assert sum(map(sum, below)) == 8000


def test_an_allocator_of_the_programs_own_stays_and_is_not_counted(tmp_path):
    profile = profile_of(compiled("heap.c", tmp_path, "-DOWN_ALLOCATOR"), tmp_path / "run", "16")
    assert not {"heap_bytes", "heap_peak"} & set(profile.metrics)


@pytest.mark.parametrize(("compiler", "mode"), [("clang", "time"), (GCC_FALLBACK, "effort")])
def test_other_builds_count_none(tmp_path, compiler, mode):
    profile = profile_of(compiled("heap.c", tmp_path, compiler=compiler, mode=mode), tmp_path / "run", str(N))
    assert not {"heap_bytes", "heap_peak"} & set(profile.metrics)
