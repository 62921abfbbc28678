"""The compiler plugin for gcc: the same call paths as clang's, and counts that equal those of gcc's own coverage."""

import subprocess
from pathlib import Path

import pytest
from native_programs import (
    HOOK_ALL,
    OPERATIONS,
    PROGRAMS,
    SELECTED,
    VIRTUAL_CLASSES,
    all_builds,
    build,
    launch,
    profile_of,
    regions,
    table,
    toolchain,
    write_filter,
)

from buran.measurement.toolchain.elf import Elf
from buran.measurement.toolchain.static_features import Call, read_static_features
from buran.measurement.toolchain.toolchain import GCC_PLUGIN

pytestmark = pytest.mark.mpi

LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Os", "-Og")
MORE = ("-g0", "-g", "-march=native")
RULES = {"all": HOOK_ALL, "selected": SELECTED, "default": None}
COVERAGE = "-fsanitize-coverage=trace-pc"


@pytest.fixture(scope="module")
def gcc():
    tools = toolchain("gcc")
    if tools.kind != GCC_PLUGIN:
        pytest.skip("gcc has no headers for plugins on this machine")
    return tools


@pytest.fixture(scope="module")
def reference_counter(tmp_path_factory):
    """An object whose function gcc's coverage calls in every block: the plainest counter there is."""
    folder = tmp_path_factory.mktemp("reference")
    source = folder / "count.c"
    source.write_text(
        "extern __thread unsigned long buran_blocks;\n"
        "void __sanitizer_cov_trace_pc(void);\n"
        "void __sanitizer_cov_trace_pc(void) { buran_blocks++; }\n"
    )
    subprocess.run(["gcc", "-O1", "-c", source, "-o", folder / "count.o"], check=True)
    return str(folder / "count.o")


def counts(gcc, folder, counter, *flags, rules=None, program="torture.cpp"):
    filter_file = None if rules is None else write_filter(folder, rules)
    binary = build(program, folder / counter, flags=flags, filter_file=filter_file, counter=counter, tools=gcc)
    return profile_of(binary, folder / f"run-{counter}")


def totals(profile):
    """Basic blocks of each thread, over all call paths."""
    return [sum(row) for row in zip(*table(profile, "basic_blocks").values(), strict=True)]


def compare_counters(gcc, reference_counter, folder, rules, *flags):
    register = counts(gcc, folder, "register", *flags, rules=rules)
    memory = counts(gcc, folder, "memory", *flags, rules=rules)
    reference = counts(gcc, folder, "none", *flags, COVERAGE, reference_counter, rules=rules)
    for metric in ("visits", "basic_blocks", *OPERATIONS):
        assert table(register, metric) == table(memory, metric)
    assert table(register, "visits") == table(reference, "visits")
    # The reference counts a function's first block before its hook, so for the caller: only sums can be compared.
    assert totals(register) == totals(reference)
    assert totals(register)[0] > 50_000


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_counts_equal_the_reference(gcc, reference_counter, tmp_path, level):
    compare_counters(gcc, reference_counter, tmp_path, HOOK_ALL, level)


@pytest.mark.slow
@pytest.mark.parametrize(("level", "rules", "more"), all_builds(LEVELS, RULES, MORE))
def test_counts_equal_the_reference_in_all_builds(gcc, reference_counter, tmp_path, level, rules, more):
    compare_counters(gcc, reference_counter, tmp_path, RULES[rules], level, more)


@pytest.mark.slow
@pytest.mark.parametrize(
    "level", [each if each == "-O2" else pytest.param(each, marks=pytest.mark.thorough) for each in LEVELS]
)
def test_counts_equal_those_of_a_build_without_the_plugin(gcc, reference_counter, tmp_path, level):
    counted = counts(gcc, tmp_path, "register", level, rules="EXCLUDE *")
    plain = tmp_path / "plain.o"
    command = [gcc.cxx, level, COVERAGE, "-c", str(PROGRAMS / "torture.cpp"), "-o", str(plain)]
    subprocess.run(command, check=True)
    binary = build(plain, tmp_path / "plain", flags=(reference_counter, "-Wl,--no-as-needed", "-lstdc++"), tools=gcc)
    # Without hooks only the main thread is known.
    assert totals(counted)[0] == totals(profile_of(binary, tmp_path / "run"))[0] > 50_000


@pytest.fixture(scope="module")
def torture(gcc, tmp_path_factory):
    folder = tmp_path_factory.mktemp("torture")
    return build("torture.cpp", folder / "torture", filter_file=write_filter(folder, HOOK_ALL), tools=gcc)


@pytest.fixture(scope="module")
def torture_profile(torture, tmp_path_factory):
    return profile_of(torture, tmp_path_factory.mktemp("profile") / "run")


def test_two_runs_give_the_same_counts(torture, torture_profile, tmp_path):
    again = profile_of(torture, tmp_path / "again")
    for metric in ("visits", "basic_blocks"):
        assert table(again, metric) == table(torture_profile, metric)


def test_program_behaves_as_the_original(gcc, torture, tmp_path):
    original = build("torture.cpp", tmp_path / "original", mode="vanilla", tools=gcc)
    expected = launch(original, tmp_path / "none").stdout
    assert expected.strip()
    assert launch(torture, tmp_path / "run").stdout == expected


def test_visits_are_those_of_the_source(torture_profile):
    visits = {name: row[0] for name, row in table(torture_profile, "visits").items()}

    def total(prefix):
        return sum(count for name, count in visits.items() if name == prefix or name.startswith(prefix + "->"))

    assert visits["main"] == 1
    assert visits["main->catcher(int)->passing_on(int)->between(int)->thrower(int)"] == 100
    assert visits["main->catcher(int)->passing_on(int)->fib(int)"] == sum(k % 5 == 0 and k % 3 != 0 for k in range(100))
    assert visits["main->catcher(int)->fib(int)"] == sum(k % 3 == 0 for k in range(100))
    assert total("main->fib(int)") == 2 * 987 - 1
    assert visits["main->jumper(int)->deep(int)"] == 100
    assert visits["main->jumper(int)->deep(int)->deep(int)"] == 90
    assert total("main->jumper(int)") == 1 + sum(i % 10 + 1 for i in range(100))
    assert visits["fib(int)"] == 1  # from a static initialiser, before main
    # Promised to be const: the compiler may not drop or merge the calls of a measured function.
    assert visits["main->uses_const(int)->promised_const(int)"] == 100
    assert table(torture_profile, "visits")["main->worker(void*)"] == [0, 1, 1, 1]


def test_blocks_of_simple_functions_are_known(gcc, tmp_path):
    blocks = {
        name: row[0]
        for name, row in table(counts(gcc, tmp_path, "register", "-O0", rules=HOOK_ALL), "basic_blocks").items()
    }
    assert blocks["main->Adder::f(int)"] == 2 * 50  # gcc gives the return a block of its own, without optimisation
    steps = 0
    for x in range(2, 101, 2):
        while x > 1:
            x = 3 * x + 1 if x & 1 else x // 2
            steps += 1
    # Each visit: entry, last condition, what follows the loop, return. Each turn: condition, if, one of two ways, join.
    per_turn, rest = divmod(blocks["main->Collatz::f(int)"] - 4 * 50, steps)
    assert (per_turn, rest) == (4, 0)


def test_a_function_left_by_an_exception_is_left_in_the_profile(gcc, tmp_path):
    """Also where the function that catches it is not measured."""
    source = tmp_path / "leaves.cpp"
    source.write_text(
        """#include <stdexcept>
        #define NOINLINE __attribute__((noinline))
        NOINLINE void after(int n) { for (volatile int i = 0; i < n; i = i + 1) {} }
        NOINLINE void thrower(int n) { after(n); if (n > 0) throw std::runtime_error(""); }
        NOINLINE void middle(int n) { thrower(n); after(n); }
        NOINLINE void catcher(int n) { try { middle(n); } catch (...) { after(n); } after(n); }
        int main() { for (int i = 0; i < 4; i++) catcher(i); }
        """
    )
    filter_file = write_filter(tmp_path, "EXCLUDE *\nINCLUDE main after thrower middle")
    for level in ("-O0", "-O2"):
        binary = build(source, tmp_path / f"leaves{level}", flags=(level,), filter_file=filter_file, tools=gcc)
        visits = {name: row[0] for name, row in table(profile_of(binary, tmp_path / level), "visits").items()}
        assert visits == {
            "": 1,
            "main": 1,
            "main->middle(int)": 4,
            "main->middle(int)->thrower(int)": 4,
            "main->middle(int)->thrower(int)->after(int)": 4,
            "main->middle(int)->after(int)": 1,
            "main->after(int)": 3 + 4,
        }


def test_functions_of_several_units_share_a_region(gcc, tmp_path):
    (tmp_path / "shared.h").write_text(
        "template <class T> __attribute__((noinline)) T shared(T n) { T s = 0; for (T i = 0; i < n; i++) s ^= i * i;"
        " return s; }\nint other(int);\n"
    )
    main, other = tmp_path / "main.cpp", tmp_path / "other.cpp"
    main.write_text('#include "shared.h"\nint main() { return (shared(5) + other(3)) & 0; }\n')
    other.write_text('#include "shared.h"\nint other(int n) { return shared(n); }\n')
    filter_file = write_filter(tmp_path, HOOK_ALL)
    build(other, tmp_path / "other.o", flags=("-O0", "-c"), filter_file=filter_file, tools=gcc)
    binary = build(main, tmp_path / "t", flags=("-O0", str(tmp_path / "other.o")), filter_file=filter_file, tools=gcc)
    profile = profile_of(binary, tmp_path / "run")
    assert [region.name for region in profile.tree.regions].count("int shared<int>(int)") == 1
    assert table(profile, "visits")["main->other(int)->int shared<int>(int)"] == [1]


def test_without_a_filter_small_and_foreign_functions_are_left_alone(gcc, tmp_path):
    binary = build("torture.cpp", tmp_path / "t", mode="time", tools=gcc)
    profile = profile_of(binary, tmp_path / "run")
    found = regions(profile)
    assert {"main", "fib(int)", "nest(int)", "Collatz::f(int)", "smooth(Matrix&)"} <= found
    assert not {"Matrix::at(int, int)", "Matrix::around(int, int)"} & found
    assert not {"Adder::f(int)", "compare(void const*, void const*)", "small_inline(int)"} & found
    assert not [name for name in found if "std::vector<" in name.split("(")[0]]
    assert "basic_blocks" not in profile.metrics


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("EXCLUDE *\nINCLUDE nest", {"nest(int)"}),
        ("EXCLUDE *\nINCLUDE MANGLED _Z4nesti", {"nest(int)"}),
        ("EXCLUDE *\nINCLUDE small_inline fib", {"small_inline(int)", "fib(int)"}),
        ("EXCLUDE *\nINCLUDE accumulate<*", {"int accumulate<int>(std::vector<int, std::allocator<int> > const&)"}),
    ],
)
def test_filter_selects_functions(gcc, tmp_path, rules, expected):
    binary = build("torture.cpp", tmp_path / "t", mode="time", filter_file=write_filter(tmp_path, rules), tools=gcc)
    assert regions(profile_of(binary, tmp_path / "run")) == expected


def test_regions_know_their_source(torture_profile):
    lines = (PROGRAMS / "torture.cpp").read_text().splitlines()
    nest = next(region for region in torture_profile.tree.regions if region.name == "nest(int)")
    assert nest.mangled == "_Z4nesti"
    assert nest.file.endswith("tests/measurement/programs/torture.cpp")
    assert "long nest(int n)" in lines[nest.line - 1]


def test_bad_filter_file_stops_the_build(gcc, tmp_path):
    path = tmp_path / "filter.txt"
    path.write_text("SCOREP_REGION_NAMES_BEGIN EXCLUDE *")
    with pytest.raises(AssertionError, match="inside a block") as caught:
        build("torture.cpp", tmp_path / "t", filter_file=path, tools=gcc)
    assert str(path) in str(caught.value)


def test_objects_of_two_modes_do_not_link(gcc, tmp_path):
    build("torture.cpp", tmp_path / "torture.o", mode="effort", flags=("-O0", "-c"), tools=gcc)
    with pytest.raises(AssertionError, match="buran_objects_are_for_effort"):
        build(tmp_path / "torture.o", tmp_path / "t", mode="time", tools=gcc)


def test_a_plugin_of_another_version_is_refused(gcc, tmp_path):
    for other in ("gcc-11", "gcc-13", "gcc-14"):
        source = tmp_path / "empty.c"
        source.write_text("int main(void) { return 0; }\n")
        try:
            done = subprocess.run(
                [other, f"-fplugin={gcc.plugin}", "-c", source, "-o", tmp_path / "o"], capture_output=True, text=True
            )
        except FileNotFoundError:
            continue
        assert done.returncode != 0
        assert "plugin" in done.stderr
        return
    pytest.skip("no second gcc on this machine")


def features_of(gcc, folder, name, *, flags=(), **options):
    binary = build(folder / name, folder / "program", flags=("-O1", *flags), tools=gcc, **options)
    own = {f.name for path in gcc.objects["effort"] for f in Elf.read(Path(path)).functions or ()}
    return read_static_features(binary, folder, own)


def test_static_features_of_c(gcc, tmp_path):
    (tmp_path / "nest.c").write_text(
        "static int helper(int n) { return n + 1; }\n"
        "int nest(int n) {\n"
        "    int s = 0;\n"
        "    for (int i = 0; i < n; i++) {\n"
        "        s += helper(i);\n"
        "        for (int j = 0; j < n; j++)\n"
        "            s += helper(j) + helper(s);\n"
        "    }\n"
        "    while (s > n) s /= 2;\n"
        "    return s;\n"
        "}\n"
        "int (*chosen)(int) = nest;\n"
        "int main(void) { return chosen(3) > 99; }\n"
    )
    filter_file = write_filter(tmp_path, "EXCLUDE *\nINCLUDE nest\nINCLUDE nobody")
    features = features_of(gcc, tmp_path, "nest.c", filter_file=filter_file)
    assert features.units == ("nest.c",)
    assert features.foreign == ()
    assert features.unmatched_lines == (4,)
    by_id = {function.id: function for function in features.functions}
    assert set(by_id) == {"helper@nest.c", "nest", "main"}
    nest = by_id["nest"]
    assert (nest.file, nest.line, nest.linkage, nest.hooked, nest.inline) == ("nest.c", 2, "external", True, False)
    assert [(loop.depth, loop.line) for loop in nest.loops] == [(1, 4), (2, 6), (1, 9)]
    assert nest.calls == (Call("helper@nest.c", 1, 1), Call("helper@nest.c", 2, 2))
    assert nest.statements == 7
    assert by_id["helper@nest.c"].linkage == "internal" and not by_id["helper@nest.c"].hooked
    assert by_id["main"].calls == (Call("*", 0, 1, "i32(i32)"),)
    assert 9 <= nest.blocks <= 15 and nest.instructions > 15


def test_static_features_of_cxx(gcc, tmp_path):
    (tmp_path / "a.cpp").write_text(VIRTUAL_CLASSES)
    features = features_of(gcc, tmp_path, "a.cpp")
    assert features.foreign == ()
    by_id = {function.id: function for function in features.functions}
    assert Call("*", 1, 1, "i32(p)") in by_id["main"].calls
    # Calls name functions that are there, also where a constructor has two names.
    assert {call.callee for call in by_id["main"].calls if call.callee.startswith("_ZN")} <= set(by_id)
    assert by_id["_ZN1BC1Ev"].linkage == "shared"
