"""Call paths and block counts of programs that are built with the real compiler."""

import pytest
from native_programs import (
    HOOK_ALL,
    OPERATIONS,
    PROGRAMS,
    SELECTED,
    all_builds,
    build,
    launch,
    profile_of,
    regions,
    table,
    toolchain,
    write_filter,
)

from buran.measurement.merge_dumps import read_dumps
from buran.measurement.toolchain.toolchain import CLANG_PLUGIN

pytestmark = pytest.mark.mpi

RULES = {"all": HOOK_ALL, "selected": SELECTED, "none": ""}


@pytest.fixture(scope="module")
def plugin():
    tools = toolchain()
    if tools.kind != CLANG_PLUGIN:
        pytest.skip("no clang with LLVM headers on this machine")
    return tools


def compare_with_reference(tmp_path, rules, *flags):
    filter_file = write_filter(tmp_path, rules)
    counts = {}
    for counter in ("register", "memory"):
        binary = build("torture.cpp", tmp_path / counter, flags=flags, filter_file=filter_file, counter=counter)
        profile = profile_of(binary, tmp_path / f"run-{counter}")
        counts[counter] = tuple(table(profile, metric) for metric in ("basic_blocks", "visits", *OPERATIONS))
    assert counts["register"] == counts["memory"]
    assert sum(map(sum, counts["register"][0].values())) > 10_000
    return counts["register"][:2]


@pytest.mark.parametrize("rules", [HOOK_ALL, SELECTED], ids=["all", "selected"])
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_counting_in_a_register_is_exact(plugin, tmp_path, level, rules):
    compare_with_reference(tmp_path, rules, level)


def test_blocks_of_simple_functions_are_known(plugin, tmp_path):
    blocks, visits = compare_with_reference(tmp_path, HOOK_ALL, "-O0")
    straight = "main->Adder::f(int)"  # one block, which is not its caller's
    assert (blocks[straight][0], visits[straight][0]) == (50, 50)
    # Each visit: entry, last condition, return. Each turn: condition, body, one of two ways, join.
    steps = 0
    for x in range(2, 101, 2):
        while x > 1:
            x = 3 * x + 1 if x & 1 else x // 2
            steps += 1
    per_turn, rest = divmod(blocks["main->Collatz::f(int)"][0] - 3 * 50, steps)
    assert (per_turn, rest) == (4, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "rules", "debug"), all_builds(("-O0", "-O1", "-O2", "-O3", "-Os"), RULES, ("-g0", "-g"))
)
def test_counting_in_a_register_is_exact_in_all_builds(plugin, tmp_path, level, rules, debug):
    compare_with_reference(tmp_path, RULES[rules], level, debug, "-march=native")


@pytest.mark.slow
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_debug_information_changes_no_count(plugin, tmp_path, level):
    filter_file = write_filter(tmp_path, HOOK_ALL)
    seen = []
    for debug in ("-g0", "-g"):
        binary = build("torture.cpp", tmp_path / f"torture{debug}", flags=(level, debug), filter_file=filter_file)
        seen.append(table(profile_of(binary, tmp_path / debug), "basic_blocks"))
    assert seen[0] == seen[1]


@pytest.fixture(scope="module")
def torture(plugin, tmp_path_factory):
    folder = tmp_path_factory.mktemp("torture")
    return build("torture.cpp", folder / "torture", filter_file=write_filter(folder, HOOK_ALL))


@pytest.fixture(scope="module")
def torture_profile(torture, tmp_path_factory):
    return profile_of(torture, tmp_path_factory.mktemp("profile") / "run")


def test_two_runs_give_the_same_counts(torture, torture_profile, tmp_path):
    again = profile_of(torture, tmp_path / "again")
    for metric in ("visits", "basic_blocks"):
        assert table(again, metric) == table(torture_profile, metric)


def test_instrumented_program_behaves_as_the_original(torture, tmp_path):
    original = build("torture.cpp", tmp_path / "original", mode="vanilla")
    expected = launch(original, tmp_path / "none").stdout
    assert expected.strip()
    assert launch(torture, tmp_path / "run").stdout == expected
    assert not (tmp_path / "none").exists()


def test_visits_are_those_of_the_source(torture_profile):
    visits = {name: row[0] for name, row in table(torture_profile, "visits").items()}

    def total(prefix):
        return sum(count for name, count in visits.items() if name == prefix or name.startswith(prefix + "->"))

    assert visits["main"] == 1
    assert visits["main->catcher(int)"] == 1
    assert visits["main->catcher(int)->passing_on(int)"] == 100
    assert visits["main->catcher(int)->passing_on(int)->between(int)->thrower(int)"] == 100
    # Caught and passed on: 5, 10, 20, 25, ... are no multiples of 3.
    assert visits["main->catcher(int)->passing_on(int)->fib(int)"] == sum(k % 5 == 0 and k % 3 != 0 for k in range(100))
    assert visits["main->catcher(int)->fib(int)"] == sum(k % 3 == 0 for k in range(100))
    assert visits["main->switches(int)"] == 1000
    assert total("main->fib(int)") == 2 * 987 - 1  # fib(15) makes 2 fib(16) - 1 calls
    # The jumps come back: every deep() starts below jumper(), never below another deep() that was left.
    assert visits["main->jumper(int)->deep(int)"] == 100
    assert visits["main->jumper(int)->deep(int)->deep(int)"] == 90
    assert total("main->jumper(int)") == 1 + sum(i % 10 + 1 for i in range(100))
    assert visits["fib(int)"] == 1  # from a static initialiser, before main
    assert visits["main->ends_here(int)"] == 1


def test_unbounded_recursion_is_booked_at_the_depth_limit(torture_profile):
    assert int(torture_profile.attributes["visits_below_depth_limit"]) > 200
    assert torture_profile.tree.depth.max() <= 257


def test_threads_are_locations_of_their_own(torture_profile):
    assert [location.thread for location in torture_profile.locations] == [0, 1, 2, 3]
    row = table(torture_profile, "visits")["main->worker(void*)"]  # main has started them
    assert row == [0, 1, 1, 1]
    assert table(torture_profile, "basic_blocks")["main->worker(void*)->nest(int)"][1] > 10


def test_times_nest(torture_profile):
    time = torture_profile.values["time"]
    assert (torture_profile.exclusive("time") >= -1e-9).all()
    assert 0 < time[0, 0] < 60


def test_regions_know_their_source(torture_profile):
    lines = (PROGRAMS / "torture.cpp").read_text().splitlines()
    by_name = {region.name: region for region in torture_profile.tree.regions}
    nest = by_name["nest(int)"]
    assert nest.mangled == "_Z4nesti"
    assert nest.file.endswith("tests/measurement/programs/torture.cpp")
    assert "long nest(int n)" in lines[nest.line - 1]
    root = torture_profile.tree.regions[torture_profile.tree.region[0]]
    assert (root.name, root.paradigm, root.role) == ("torture", "measurement", "artificial")


def test_exit_from_within_a_function_is_a_complete_profile(torture, tmp_path):
    profile = profile_of(torture, tmp_path / "run", "50", "exit")
    assert table(profile, "visits")["main->ends_here(int)"][0] == 1
    assert table(profile, "visits")["main"][0] == 1


def test_crash_leaves_no_profile(torture, tmp_path):
    assert launch(torture, tmp_path / "run", "50", "abort").returncode != 0
    assert not list(tmp_path.glob("run/*"))


def test_without_a_folder_no_profile_is_written(torture, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BURAN_PROFILE_DIR", "")
    assert launch(torture, "").returncode == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("EXCLUDE *\nINCLUDE nest*", {"nest(int)"}),
        ("EXCLUDE *\nINCLUDE nest", {"nest(int)"}),
        ("EXCLUDE *\nINCLUDE nest(int)", {"nest(int)"}),
        ("EXCLUDE *\nINCLUDE MANGLED _Z4nesti", {"nest(int)"}),
        ("EXCLUDE *\nINCLUDE _Z4nesti", set()),
        ("EXCLUDE *\nINCLUDE MANGLED nest", set()),
        ("EXCLUDE *\nINCLUDE MANGLED _Z4nesti fib\nINCLUDE fib", {"nest(int)", "fib(int)"}),
        (
            r"EXCLUDE *  # all" "\n" r"INCLUDE axpy(int,\ double*,*",
            {"axpy(int, double*, double const*, double)"},
        ),
        ("EXCLUDE *\nINCLUDE nest fib\nEXCLUDE n*", {"fib(int)"}),
        ("EXCLUDE *\nINCLUDE Collatz::f switch?s", {"Collatz::f(int)", "switches(int)"}),
        ("EXCLUDE *\nINCLUDE small_inline", {"small_inline(int)"}),
        # The demangled name of a template begins with its return type.
        (
            "EXCLUDE *\nINCLUDE accumulate<*",
            {"int accumulate<int>(std::vector<int, std::allocator<int>> const&)"},
        ),
    ],
)
def test_filter_selects_functions(plugin, tmp_path, rules, expected):
    filter_file = write_filter(tmp_path, rules)
    binary = build("torture.cpp", tmp_path / "t", mode="time", flags=("-O1",), filter_file=filter_file)
    # Older demanglers write `> >`.
    assert {name.replace("> >", ">>") for name in regions(profile_of(binary, tmp_path / "run"))} == expected


def test_excluded_file(plugin, tmp_path):
    path = tmp_path / "filter.txt"
    path.write_text("SCOREP_FILE_NAMES_BEGIN EXCLUDE *torture.cpp SCOREP_FILE_NAMES_END")
    binary = build("torture.cpp", tmp_path / "t", mode="time", filter_file=path)
    assert regions(profile_of(binary, tmp_path / "run")) == set()


def test_without_a_filter_small_and_foreign_functions_are_left_alone(plugin, tmp_path):
    binary = build("torture.cpp", tmp_path / "t", mode="time")
    profile = profile_of(binary, tmp_path / "run")
    found = regions(profile)
    assert {"main", "fib(int)", "nest(int)", "Collatz::f(int)", "smooth(Matrix&)"} <= found
    assert not {"Matrix::at(int, int)", "Matrix::around(int, int)"} & found
    assert not {"Adder::f(int)", "compare(void const*, void const*)", "small_inline(int)"} & found
    assert not [name for name in found if "std::vector<" in name.split("(")[0]]
    assert "basic_blocks" not in profile.metrics


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("EXCLUDE *", "outside"),
        ("SCOREP_REGION_NAMES_BEGIN *", "before EXCLUDE or INCLUDE"),
        ("SCOREP_REGION_NAMES_BEGIN EXCLUDE *", "inside a block"),
        ("SCOREP_REGION_NAMES_END", "not begun"),
        ("SCOREP_REGION_NAMES_BEGIN SCOREP_FILE_NAMES_BEGIN", "inside another"),
        ("SCOREP_REGION_NAMES_BEGIN EXCLUDE " + "x" * 70_000, "65000"),
        (None, "cannot be read"),
    ],
)
def test_bad_filter_file_stops_the_build(plugin, tmp_path, text, reason):
    path = tmp_path / "filter.txt"
    if text is not None:
        path.write_text(text)
    with pytest.raises(AssertionError) as caught:
        build("torture.cpp", tmp_path / "t", filter_file=path)
    assert str(path) in str(caught.value) and reason in str(caught.value)


def test_objects_of_two_modes_do_not_link(plugin, tmp_path):
    build("torture.cpp", tmp_path / "torture.o", mode="effort", flags=("-O0", "-c"))
    with pytest.raises(AssertionError, match="buran_objects_are_for_effort"):
        build(tmp_path / "torture.o", tmp_path / "t", mode="time")


# ---- without a compiler plugin


@pytest.fixture(scope="module")
def fallback_profile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fallback")
    binary = build("torture.cpp", folder / "torture", tools=toolchain("gcc-fallback"))
    return profile_of(binary, folder / "run")


def test_fallback_visits(fallback_profile):
    visits = {name: row[0] for name, row in table(fallback_profile, "visits").items()}
    assert visits["main"] == 1
    assert visits["main->catcher(int)->passing_on(int)->between(int)->thrower(int)"] == 100
    assert visits["main->switches(int)"] == 1000
    assert visits["main->compare(void const*, void const*)"] > 100  # static: not in the dynamic symbol table
    assert sum(count for name, count in visits.items() if name.startswith("main->fib(int)")) == 2 * 987 - 1
    assert visits["main->ends_here(int)"] == 1


def test_fallback_counts_blocks(fallback_profile):
    blocks = {name: row[0] for name, row in table(fallback_profile, "basic_blocks").items()}
    # Three blocks at least and ten at most for each of the 5050 * 3 innermost iterations and their loops.
    assert 5050 <= blocks["main->nest(int)"] <= 10 * 3 * 5050
    assert fallback_profile.attributes["toolchain"] == "gcc-fallback"


def test_fallback_is_deterministic_and_applies_the_filter(tmp_path):
    filter_file = write_filter(tmp_path, SELECTED)
    binary = build("torture.cpp", tmp_path / "t", tools=toolchain("gcc-fallback"), filter_file=filter_file)
    first, second = (profile_of(binary, tmp_path / name) for name in ("a", "b"))
    assert table(first, "basic_blocks") == table(second, "basic_blocks")
    assert table(first, "visits") == table(second, "visits")
    assert regions(first) == {
        "main",
        "fib(int)",
        "catcher(int)",
        "jumper(int)",
        "nest(int)",
        "worker(void*)",
    }


def test_fallback_says_what_it_costs():
    tools = toolchain("gcc-fallback")
    assert tools.plugin is None
    assert any("clang" in note for note in tools.notes)


def test_profiles_of_two_binaries_are_not_mixed(torture, tmp_path):
    other = build("torture.cpp", tmp_path / "torture", flags=("-O1",))
    launch(torture, tmp_path / "run")
    launch(other, tmp_path / "run")
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert names[1] == "rank-000000.buran" and len(names) == 2  # the second did not overwrite the first
    with pytest.raises(Exception, match="2 processes"):
        read_dumps(tmp_path / "run", 1)
