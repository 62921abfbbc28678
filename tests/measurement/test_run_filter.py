"""Filters at run time, and what a visit costs."""

import os
import subprocess

import pytest
from native_programs import HOOK_ALL, build, toolchain, write_filter

from buran.measurement.backends.embedded import cost_of_hooks
from buran.measurement.merge_dumps import read_dumps
from buran.measurement.toolchain.toolchain import GCC_FALLBACK

SOURCE = """\
__attribute__((noinline)) int small(int n) { __asm__ volatile("" ::: "memory"); return n + 1; }
__attribute__((noinline)) int work(int n) { int s = 0; for (int i = 0; i < n; i++) s += small(i); return s; }
int main(void) { return work(100) == 0; }
"""


@pytest.fixture
def program(tmp_path):
    if toolchain().kind == GCC_FALLBACK:
        pytest.skip("needs a compiler plugin")
    (tmp_path / "a.c").write_text(SOURCE)
    return build(tmp_path / "a.c", tmp_path / "program", mode="time", filter_file=write_filter(tmp_path, HOOK_ALL))


def visits(program, folder, run_filter):
    folder.mkdir()
    environment = {**os.environ, "BURAN_PROFILE_DIR": str(folder), "BURAN_RUN_FILTER": run_filter}
    done = subprocess.run([program], env=environment, capture_output=True, text=True)
    if done.returncode:
        return done.stderr
    profile = read_dumps(folder, 1)
    return dict(zip(profile.tree.names, profile.values["visits"][:, 0].tolist(), strict=True))


@pytest.mark.mpi
def test_one_build_many_filters(program, tmp_path):
    everything = visits(program, tmp_path / "all", "")
    assert any(name.endswith("main->work->small") and number == 100 for name, number in everything.items())
    rules = tmp_path / "run.filter"
    rules.write_text("SCOREP_REGION_NAMES_BEGIN\nEXCLUDE *\nINCLUDE MANGLED main work\nSCOREP_REGION_NAMES_END\n")
    some = visits(program, tmp_path / "some", str(rules))
    assert {name.split("->", 1)[1] for name in some if "->" in name} == {"main", "main->work"}
    assert all(everything[name] == number for name, number in some.items())


@pytest.mark.mpi
@pytest.mark.parametrize("text", [None, "EXCLUDE *\n"])
def test_a_bad_filter_ends_the_program_at_once(program, tmp_path, text):
    path = tmp_path / "bad.filter"
    if text is not None:
        path.write_text(text)
    assert "BURAN_RUN_FILTER" in visits(program, tmp_path / "none", str(path))


@pytest.mark.mpi
def test_a_visit_costs_nanoseconds():
    if toolchain().kind == GCC_FALLBACK:
        pytest.skip("needs a compiler plugin")
    cost = cost_of_hooks(toolchain())
    assert 1e-9 < cost.seconds < 5e-6
    assert cost.spread_s >= 0
