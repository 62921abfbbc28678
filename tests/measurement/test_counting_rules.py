"""Blocks of functions that are simple enough to be counted by hand."""

import pytest
from native_programs import HOOK_ALL, build, profile_of, table, toolchain, write_filter

pytestmark = pytest.mark.mpi

PLUGINS = ["clang", "gcc"]
WAYS = ["exit", "_exit", "quick_exit", "pthread_exit", "longjmp", "return"]


@pytest.fixture(
    scope="module", params=[(compiler, level) for compiler in PLUGINS for level in ("-O0", "-O2")], ids="".join
)
def rules(request, tmp_path_factory):
    compiler, level = request.param
    folder = tmp_path_factory.mktemp("rules")
    tools = toolchain(compiler)
    return build("rules.c", folder / "rules", tools=tools, flags=(level,), filter_file=write_filter(folder, HOOK_ALL))


def blocks_of(binary, folder, *arguments):
    return {path: row[0] for path, row in table(profile_of(binary, folder, *arguments), "basic_blocks").items()}


@pytest.mark.parametrize("how", WAYS)
def test_nothing_is_lost_where_a_function_does_not_return(rules, tmp_path, how):
    few, many = (blocks_of(rules, tmp_path / str(turns), how, str(turns))["main->leaves"] for turns in (1000, 11_000))
    per_turn, rest = divmod(many - few, 10_000)
    assert rest == 0 and per_turn >= 1
    assert few >= 1000 * per_turn + 1


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_blocks_that_only_pass_control_on_are_not_counted(tmp_path, level):
    filter_file = write_filter(tmp_path, HOOK_ALL)
    counted = {}
    for counter in ("register", "memory"):
        tools = toolchain("clang")
        binary = build(
            "rules.c", tmp_path / counter, tools=tools, flags=(level,), filter_file=filter_file, counter=counter
        )
        counted[counter] = blocks_of(binary, tmp_path / f"run-{counter}", "return")["main->hollow"]
    # Hollow way: entry, return. The other: entry, assignment, return.
    assert counted == {"register": 100 * 2 + 10 * 3, "memory": 100 * 2 + 10 * 3}
