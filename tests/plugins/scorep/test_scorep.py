"""The Score-P backend: command lines as Score-P takes them, environments, profiles, what a build says."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from native_programs import toolchain

from buran.campaign.plan import Mode
from buran.errors import BuildError, RunError, ToolError, UsageError
from buran.measurement.backends.base import SYSTEMS
from buran.measurement.backends.embedded import EmbeddedBackend
from buran.measurement.toolchain.elf import Elf
from buran.plugins.scorep.backend import ScorePBackend, read_scorep_profile
from buran.plugins.scorep.hooks import HookedFunction, hooked_functions, notes_on_hooks
from buran.plugins.scorep.installation import Installation, find_scorep
from buran.profiles.cubex_read import read_cubex
from buran.profiles.cubex_write import write_cubex
from buran.profiles.metrics import METRICS
from buran.profiles.profile import CallTree, Location, Profile, Region

SAMPLES = Path(__file__).parents[2] / "data" / "scorep"
# A stand-in for Score-P's wrapper: what the real one of version 8.4 makes of its environment, as a command line.
WRAPPER = """\
#!/bin/sh
if [ "$SCOREP_WRAPPER" = off ]; then echo "mpicc $*"; else
echo "scorep $SCOREP_WRAPPER_INSTRUMENTER_FLAGS mpicc $SCOREP_WRAPPER_COMPILER_FLAGS $*"; fi
"""
REAL = pytest.mark.skipif(shutil.which("scorep") is None, reason="Score-P is not installed")
NAMES = ("scorep-gcc", "scorep-g++", "scorep-mpicc", "scorep-mpicxx", "scorep-mpif90")


SUMMARY = """\
Configuration summary:
  Score-P 8.4:
    Score-P (backend):
      C99 compiler:             /usr/bin/gcc (gnu 12.2.0)
      C++11 compiler:           /usr/bin/g++ -std=c++11 (gnu 12.2.0)
      Compiler instrumentation: yes
        C:                      gcc_plugin
        C++:                    gcc_plugin
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A stand-in for an installation, and no other one."""
    real = shutil.which("scorep")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "scorep").write_text('#!/bin/sh\necho "Score-P 8.4"\n')
    (folder / "scorep-info").write_text(f"#!/bin/sh\ncat <<END\n{SUMMARY}END\n")
    for name in NAMES:
        (folder / name).write_text(WRAPPER)
    for path in folder.iterdir():
        path.chmod(0o755)
    others = [word for word in os.environ["PATH"].split(":") if real is None or word != str(Path(real).parent)]
    monkeypatch.setenv("PATH", ":".join([str(folder), *others]))
    return folder


@pytest.fixture
def backend(installed, tmp_path, monkeypatch):
    monkeypatch.setattr("buran.plugins.scorep.backend.refused_counters", lambda names: {})  # all machines alike
    embedded = EmbeddedBackend(toolchain(), tmp_path / "toolchain.json", ("instructions", "cache_misses"))
    return ScorePBackend(find_scorep(), embedded, 64)


def test_it_is_found_with_its_version(installed):
    found = find_scorep()
    assert found.version == "8.4" and found.compiler == "gnu 12.2.0"
    assert found.wrappers["mpicxx"] == str(installed / "scorep-mpicxx")
    assert found.wrappers["mpifort"] == str(installed / "scorep-mpif90")
    assert "fc" not in found.wrappers


def test_one_made_for_clang_has_other_wrappers_and_wants_its_own_compilers(installed, backend):
    """Whatever an MPI's wrappers call otherwise: the plugin is one of that compiler, and both builds have it."""
    for gnu, clang in (("scorep-gcc", "scorep-clang"), ("scorep-g++", "scorep-clang++")):
        (installed / gnu).rename(installed / clang)
    says(
        installed,
        SUMMARY.replace("gnu", "clang").replace("/usr/bin/gcc", "/opt/clang").replace("/usr/bin/g++", "/opt/clang++"),
    )
    found = find_scorep()
    assert found.wrappers["cc"] == str(installed / "scorep-clang")
    assert found.wrappers["cxx"] == str(installed / "scorep-clang++")
    assert found.compilers == {"cc": "/opt/clang", "cxx": "/opt/clang++"}
    for mode in (Mode.TIME, Mode.VANILLA):
        environment = replace(backend, scorep=found).build_environment(mode, None)
        assert (environment["OMPI_CC"], environment["MPICH_CXX"]) == ("/opt/clang", "/opt/clang++")


def test_without_it_the_way_out_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("buran.plugins.scorep.installation.find_tool", lambda name: None)
    with pytest.raises(ToolError) as caught:
        find_scorep()
    assert "backend: embedded" in str(caught.value)


def test_one_without_an_mpi_is_refused(installed):
    for name in NAMES[2:]:
        (installed / name).unlink()
    with pytest.raises(ToolError, match="MPI"):
        find_scorep()


def says(installed, summary):
    (installed / "scorep-info").write_text(f"#!/bin/sh\ncat <<END\n{summary}END\n")


def test_its_summary_tells_compiler_and_plugin(installed):
    found = find_scorep()
    assert (found.compiler, found.family, found.instrumentation) == ("gnu 12.2.0", "gcc", "gcc_plugin")
    assert found.filters_builds
    says(installed, SUMMARY.replace("gnu", "clang").replace("gcc_plugin", "llvm_plugin"))
    assert find_scorep().family == "clang" and find_scorep().filters_builds
    says(installed, SUMMARY.replace("gnu", "cray"))
    assert find_scorep().family == "auto"
    (installed / "scorep-info").unlink()
    assert find_scorep() == Installation("8.4", find_scorep().wrappers)


def test_one_without_hooks_is_refused(installed):
    says(installed, SUMMARY[: SUMMARY.index("yes")] + "no\n")
    with pytest.raises(ToolError, match="instrument") as caught:
        find_scorep()
    assert "backend: embedded" in str(caught.value)


@pytest.mark.mpi
def test_one_that_cannot_compile_with_filters_says_what_to_write(installed, tmp_path):
    says(installed, SUMMARY.replace("gcc_plugin", "-finstrument-functions"))
    system = SYSTEMS.load("scorep")
    with pytest.raises(ToolError, match="filter") as caught:
        system.open(campaign_with(), tmp_path)
    assert "filtering: run" in str(caught.value)
    assert system.open(campaign_with(filtering="run"), tmp_path).scorep.instrumentation == "-finstrument-functions"


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        (
            "[Score-P] ERROR: Execution failed: mpicxx -fopenmp -E `scorep-config --thread=omp:opari2 --cppflags`",
            "hand sources on as they are where",
        ),
        (
            "[Score-P] src/measurement/SCOREP_Memory.c:186: Error: No more memory pages available: Out of memory. "
            "Please increase SCOREP_TOTAL_MEMORY=16384000 and try again.",
            "scorep.process_memory_mb",
        ),
        (
            "[Score-P] src/services/metric/scorep_metric_perf.c:668: Error: An error occurred while initializing Linux "
            "PERF infrastructure: metric_perf_event_open (test): No such file or directory (fatal)",
            "counters",
        ),
        ("[Score-P] Fatal: Cannot proceed: Maybe an inconsistent profile.", "refinement.keep"),
        ("work.c:(.text+0x19): undefined reference to `POMP2_Assign_handle'", "scorep.options: --thread=omp"),
    ],
)
def test_its_last_words_are_explained(backend, tmp_path, words, meaning):
    log = tmp_path / "stderr.log"
    log.write_text(f"some output\n{words}\n")
    assert meaning in backend.why_failed(log)
    assert backend.why_failed(log).endswith(f"the log says: {words.rpartition('Error: ')[2]}")
    log.write_text("Segmentation fault\n")
    assert backend.why_failed(log) is None


@pytest.mark.mpi
@pytest.mark.parametrize("source", ["perf", "papi"])
def test_counters_that_cannot_be_opened_are_those_of_the_build(source, backend, tmp_path):
    log = tmp_path / "stderr.log"
    log.write_text(f"[Score-P] src/services/metric/scorep_metric_{source}.c:668: Error: An error occurred (fatal)\n")
    counting = replace(backend, effort_metric="instructions")
    assert counting.missing_metric(Mode.EFFORT, log) == "instructions"
    assert counting.missing_metric(Mode.TIME, log) is None
    assert backend.missing_metric(Mode.EFFORT, log) is None
    log.write_text("Segmentation fault\n")
    assert counting.missing_metric(Mode.EFFORT, log) is None


@pytest.mark.mpi
def test_counts_of_another_compiler_are_said_to_be(backend):
    assert not any(
        "another one" in note for note in replace(backend, scorep=replace(backend.scorep, compiler="")).notes
    )
    kind = backend.embedded.toolchain.kind
    same, other = ("gnu", "clang") if kind.startswith("gcc") else ("clang", "gnu")
    for made_for, is_said in ((same, False), (other, True), ("intel", True)):
        one = replace(backend, scorep=replace(backend.scorep, compiler=f"{made_for} 12.2.0"))
        assert any(f"({made_for} 12.2.0)" in note for note in one.notes) == is_said


def test_counters_that_cannot_be_had_are_left_out_and_named(backend, tmp_path, monkeypatch):
    """Score-P would end every run; and it counts no context switches, which are in the kernel."""
    monkeypatch.setattr(
        "buran.plugins.scorep.backend.refused_counters", lambda names: {"cache-misses": "No such file or directory"}
    )
    asked = replace(backend.embedded, counters=("instructions", "cache_misses", "context_switches"))
    backend = replace(backend, embedded=asked)
    assert backend.run_environment(Mode.TIME, tmp_path)["SCOREP_METRIC_PERF"] == "instructions"
    (tmp_path / "scorep").mkdir()
    shutil.copy(SAMPLES / "rusage" / "profile.cubex", tmp_path / "scorep")
    said = backend.collect(Mode.TIME, tmp_path, 2).attributes["counters_unavailable"]
    assert "cache_misses: " in said and "context_switches: " in said
    assert "instructions" not in said


def test_counters_that_fell_below_zero_are_left_out_and_named(backend, tmp_path):
    (tmp_path / "scorep").mkdir()
    own = profile(metrics=("time", "visits", "cache_misses"))
    kind = replace(METRICS["cache_misses"], name="cache_misses", kind="inclusive")
    fallen = {**own.values, "cache_misses": np.array([[1, 20], [4, 5]], dtype=np.uint64)}
    changed = replace(own, metrics={**own.metrics, "cache_misses": kind}, values=fallen)
    write_cubex(changed, tmp_path / "scorep" / "profile.cubex")
    found = backend.collect(Mode.TIME, tmp_path, 2)
    assert set(found.values) == {"time", "visits"}
    assert found.attributes["counters_unavailable"].startswith("cache_misses: ")
    for effort_metric in ("cache-misses", "cache_misses"):  # without it there are no basic blocks
        with pytest.raises(RunError, match="below zero"):
            replace(backend, effort_metric=effort_metric).collect(Mode.EFFORT, tmp_path, 2)


def test_one_that_says_no_version_is_refused(installed):
    (installed / "scorep").write_text("#!/bin/sh\necho hello\n")
    with pytest.raises(ToolError, match="version"):
        find_scorep()


def campaign_with(filtering="compile", **scorep):
    """What a campaign says to the backend, and no more."""
    settings = SimpleNamespace(**{"process_memory_mb": 128, "effort_metric": None, "options": "", **scorep})
    refinement = SimpleNamespace(enabled=True, filtering=filtering)
    config = SimpleNamespace(compiler="auto", counters=(), scorep=settings, refinement=refinement)
    return SimpleNamespace(path=Path("campaign.yaml"), config=config, compiler="auto")


def test_unknown_backends_are_refused():
    with pytest.raises(UsageError, match="unknown backend 'tau'"):
        SYSTEMS.load("tau")


@pytest.mark.mpi
def test_it_is_opened_by_name(installed, tmp_path):
    backend = SYSTEMS.load("scorep").open(campaign_with(process_memory_mb=100), tmp_path)
    assert isinstance(backend, ScorePBackend) and backend.memory_mb == 100
    assert backend.identity.startswith("scorep-8.4-embedded-")
    assert backend.description["scorep"] == "8.4"


def command_line(backend, mode, filter_file, *arguments):
    environment = {**os.environ, **backend.build_environment(mode, filter_file)}
    words = [backend.tools(mode)["mpicc"], *arguments]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def test_command_lines(backend, tmp_path):
    filter_file = tmp_path / "scorep.filter"
    line = command_line(backend, Mode.TIME, filter_file, "-O2", "a.c")
    assert line == f"scorep --instrument-filter={filter_file} mpicc  -O2 a.c"
    assert command_line(backend, Mode.TIME, None, "a.c") == "scorep  mpicc  a.c"
    assert command_line(backend, Mode.VANILLA, None, "a.c") == "mpicc a.c"
    assert backend.build_environment(Mode.TIME, filter_file)["CCACHE_DISABLE"] == "1"
    effort = backend.tools(Mode.EFFORT)
    assert effort == backend.embedded.tools(Mode.EFFORT) and effort["mpicc"].endswith("buran-mpicc")
    assert backend.build_environment(Mode.EFFORT, None)["BURAN_MODE"] == "effort"
    assert backend.build_environment(Mode.TIME, None)["BURAN_MODE"] == "vanilla"  # for languages without a wrapper


def test_options_of_a_campaign_are_part_of_the_build(backend, tmp_path):
    own = replace(backend, options="--user --thread=pthread")
    line = command_line(own, Mode.TIME, tmp_path / "f", "a.c")
    assert line == f"scorep --user --thread=pthread --instrument-filter={tmp_path / 'f'} mpicc  a.c"
    assert own.identity == f"{backend.identity}---user---thread=pthread"
    assert command_line(own, Mode.VANILLA, None, "a.c") == "mpicc a.c"


def test_a_path_with_blanks_is_refused(backend, tmp_path):
    with pytest.raises(BuildError, match="blanks"):
        backend.build_environment(Mode.TIME, tmp_path / "my results" / "scorep.filter")


def test_the_environment_of_a_run(backend, tmp_path, monkeypatch):
    monkeypatch.setenv("SCOREP_ENABLE_TRACING", "true")
    plain = backend.run_environment(Mode.TIME, tmp_path)
    assert plain["SCOREP_EXPERIMENT_DIRECTORY"] == str(tmp_path / "scorep")
    assert plain["SCOREP_ENABLE_TRACING"] == "false" and plain["SCOREP_TOTAL_MEMORY"] == "64M"
    assert plain["SCOREP_METRIC_PERF"] == "instructions,cache-misses"
    assert plain["SCOREP_FILTERING_FILE"] == ""
    filtered = backend.run_environment(Mode.TIME, tmp_path, tmp_path / "f")
    assert filtered["SCOREP_FILTERING_FILE"] == str(tmp_path / "f")
    assert backend.run_environment(Mode.VANILLA, tmp_path) == {}
    assert "BURAN_PROFILE_DIR" in backend.run_environment(Mode.EFFORT, tmp_path)
    assert os.environ["SCOREP_ENABLE_TRACING"] == "true"


def profile(ranks=2, metrics=("time", "visits", "cache-misses"), **changes):
    tree = CallTree((Region("main"), Region("work")), np.array([0, 1]), np.array([-1, 0]))
    kinds = {name: METRICS.get(name, METRICS["cache_misses"]) for name in metrics}
    kinds = {
        name: kind if kind.name == name else type(kind)(**{**vars(kind), "name": name}) for name, kind in kinds.items()
    }
    values = {
        name: np.ones((2, ranks), dtype=np.float64 if kinds[name].dtype == "DOUBLE" else np.uint64) for name in metrics
    }
    return Profile(tree, tuple(Location(rank) for rank in range(ranks)), kinds, values, {}, **changes)


def test_profiles_are_read_under_our_names(backend, tmp_path):
    (tmp_path / "scorep").mkdir()
    write_cubex(profile(), tmp_path / "scorep" / "profile.cubex")
    found = backend.collect(Mode.TIME, tmp_path, 2)
    assert set(found.values) == {"time", "visits", "cache_misses"}
    assert found.metrics["cache_misses"] == METRICS["cache_misses"]


def test_names_and_units_of_perf_are_score_ps(backend, tmp_path):
    """Score-P 8.4 writes underscores into names of perf, and processor time as nanoseconds."""
    (tmp_path / "scorep").mkdir()
    theirs = profile(metrics=("time", "visits", "cpu_cycles", "task_clock"))
    count = replace(METRICS["cycles"], name="task_clock", kind="inclusive")
    changed = replace(
        theirs,
        metrics={**theirs.metrics, "task_clock": count},
        values={**theirs.values, "task_clock": np.array([[3_000_000_000, 5], [1_000_000_000, 5]], dtype=np.uint64)},
    )
    write_cubex(changed, tmp_path / "scorep" / "profile.cubex")
    found = backend.collect(Mode.TIME, tmp_path, 2)
    assert {"cycles", "task_clock"} <= set(found.values) and "cpu_cycles" not in found.values
    assert found.values["task_clock"].tolist() == [[3.0, 5e-9], [1.0, 5e-9]]
    assert found.metrics["task_clock"] == METRICS["task_clock"]


def test_counters_are_exclusive_whatever_the_file_says(backend, tmp_path):
    (tmp_path / "scorep").mkdir()
    own = profile()
    kind = type(own.metrics["cache-misses"])(**{**vars(own.metrics["cache-misses"]), "kind": "inclusive"})
    values = {**own.values, "cache-misses": np.array([[10, 20], [4, 5]], dtype=np.uint64)}
    changed = replace(own, metrics={**own.metrics, "cache-misses": kind}, values=values)
    write_cubex(changed, tmp_path / "scorep" / "profile.cubex")
    found = backend.collect(Mode.TIME, tmp_path, 2)
    assert found.exclusive("cache_misses").tolist() == [[6, 15], [4, 5]]


@pytest.mark.parametrize(("metric", "variable"), [("PAPI_TOT_INS", "PAPI"), ("instructions", "PERF")])
def test_a_metric_of_score_p_may_stand_for_basic_blocks(metric, variable, backend, tmp_path):
    own = replace(backend, effort_metric=metric)
    assert own.identity != backend.identity and any(metric in note for note in own.notes)
    assert command_line(own, Mode.EFFORT, None, "a.c") == "scorep  mpicc  a.c"
    environment = own.run_environment(Mode.EFFORT, tmp_path)
    assert environment[f"SCOREP_METRIC_{variable}"] == metric
    assert environment["SCOREP_METRIC_PAPI" if variable == "PERF" else "SCOREP_METRIC_PERF"] == ""
    assert own.run_environment(Mode.TIME, tmp_path)["SCOREP_METRIC_PERF"] == "instructions,cache-misses"
    (tmp_path / "scorep").mkdir()
    path = tmp_path / "scorep" / "profile.cubex"
    write_cubex(profile(metrics=("time", "visits", metric)), path)
    found = own.collect(Mode.EFFORT, tmp_path, 2)
    assert found.values["basic_blocks"].tolist() == [[1, 1], [1, 1]] and metric not in found.values
    write_cubex(profile(metrics=("time", "visits")), path)
    with pytest.raises(RunError, match=f"no {metric}"):
        own.collect(Mode.EFFORT, tmp_path, 2)


def test_incomplete_profiles_are_failed_runs(tmp_path):
    path = tmp_path / "profile.cubex"
    with pytest.raises(RunError, match="left no profile"):
        read_scorep_profile(path, 2)
    path.write_bytes(b"not a cube")
    with pytest.raises(RunError, match="cannot be read"):
        read_scorep_profile(path, 2)
    write_cubex(profile(), path)
    with pytest.raises(RunError) as caught:
        read_scorep_profile(path, 4)
    assert "ranks 2, 3 are missing" in str(caught.value)
    with pytest.raises(RunError) as caught:
        read_scorep_profile(path, 1)
    assert "it has 2 ranks" in str(caught.value)
    write_cubex(profile(metrics=("time",)), path)
    with pytest.raises(RunError, match="no visits"):
        read_scorep_profile(path, 2)


def test_real_profiles_of_score_p():
    path = sorted((SAMPLES / "tree").glob("*/profile.cubex"))[0]
    ranks = len({location.rank for location in read_cubex(path).locations})
    found = read_scorep_profile(path, ranks)
    assert {"time", "visits"} <= set(found.values) and len(found.tree) > 1


DESCRIBED = """\
struct __attribute__((aligned(64))) Description {
    int *handle; const char *name, *symbol, *file; int first, last; long rest[3];
};
#define DESCRIBE(type, entry) static type entry __attribute__((section(".scorep.region.descrs"), used))
static int handle;
DESCRIBE(Description, begin);
DESCRIBE(Description, work_) = {&handle, "int work(int)", "_Z4worki", "a.cpp", 1, 2, {}};
DESCRIBE(Description, plain_c_) = {&handle, "plain_c", "plain_c", "a.cpp", 3, 4, {}};
DESCRIBE(Description, end);
int main() { return begin.first + work_.last + plain_c_.last + end.first; }
"""


def test_hooks_are_read_from_the_program(tmp_path):
    """As in programs of Score-P's GCC plugin: a section of descriptions, one a function and two at its ends."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    (tmp_path / "a.cpp").write_text(DESCRIBED)
    subprocess.run([compiler, "a.cpp", "-o", "program"], cwd=tmp_path, check=True)
    assert hooked_functions(Elf.read(tmp_path / "program")) == {
        HookedFunction("_Z4worki", "int work(int)", "a.cpp"),
        HookedFunction("plain_c", "plain_c", "a.cpp"),
    }
    backend = ScorePBackend(Installation("8.4", {}), EmbeddedBackend(toolchain(), tmp_path / "t.json"), 64)
    names = ("_Z4worki", "_Z5plaini", "plain_c")
    rules = "SCOREP_REGION_NAMES_BEGIN\nEXCLUDE *\n" + "".join(f"INCLUDE MANGLED {name}\n" for name in names)
    features, notes = backend.inspect_build(tmp_path / "program", tmp_path, rules, Mode.TIME)
    assert features is None
    assert len(notes) == 1 and notes[0].startswith("1 functions")
    assert notes[0].endswith(": _Z5plaini")
    # At run time hooks are taken away one by one: regions that the program marks itself stay.
    taken = backend.run_filter(
        tmp_path / "program", "SCOREP_REGION_NAMES_BEGIN\nEXCLUDE *\nINCLUDE MANGLED plain_c\nSCOREP_REGION_NAMES_END\n"
    )
    assert taken.splitlines()[1:-1] == [
        "EXCLUDE MANGLED _Z4worki",
        "EXCLUDE MANGLED plain_c",
        "INCLUDE MANGLED plain_c",
    ]
    subprocess.run(["strip", "program"], cwd=tmp_path, check=True)  # the section stays
    assert backend.inspect_build(tmp_path / "program", tmp_path, rules, Mode.TIME) == (None, notes)
    (tmp_path / "b.cpp").write_text("int main() { return 0; }\n")
    subprocess.run([compiler, "b.cpp", "-o", "bare"], cwd=tmp_path, check=True)
    with pytest.raises(BuildError, match="Score-P"):
        backend.inspect_build(tmp_path / "bare", tmp_path, "", Mode.TIME)


def test_constructors_are_one_function_to_a_filter():
    assert notes_on_hooks(hooks("_ZN1SC2Ei"), frozenset({"_ZN1SC1Ei"})) == ()
    assert "does not show" in notes_on_hooks(None, frozenset({"main"}))[0]


def hooks(*symbols):
    return frozenset(HookedFunction(symbol, symbol, "a.cpp") for symbol in symbols)


def test_why_functions_cannot_be_recorded():
    wanted = frozenset({"main", "_ZZ4mainENK3$_0clEd", "_ZNSt6vectorIdSaIdEE9push_backERKd", "_Z5smalli"})
    notes = notes_on_hooks(hooks("main"), wanted, "gnu 12.2.0")
    assert len(notes) == 3 and all("gnu 12.2.0" in note for note in notes)
    assert [note.rpartition(": ")[2] for note in notes] == [
        "_Z5smalli",
        "_ZNSt6vectorIdSaIdEE9push_backERKd",
        "_ZZ4mainENK3$_0clEd",
    ]


@pytest.mark.mpi
@REAL
def test_a_real_program(tmp_path):
    backend = SYSTEMS.load("scorep").open(campaign_with(), tmp_path)
    (tmp_path / "a.c").write_text(
        "#include <mpi.h>\nint work(int n) { return n + 1; }\n"
        "int main(int c, char **v) { MPI_Init(&c, &v); c = work(c); MPI_Finalize(); return c == 0; }\n"
    )
    environment = {**os.environ, **backend.build_environment(Mode.TIME, None)}
    words = [backend.tools(Mode.TIME)["mpicc"], "a.c", "-o", "program"]
    subprocess.run(words, cwd=tmp_path, env=environment, check=True)
    backend.inspect_build(tmp_path / "program", tmp_path, "", Mode.TIME)
    environment = {**os.environ, **backend.run_environment(Mode.TIME, tmp_path)}
    subprocess.run([tmp_path / "program"], cwd=tmp_path, env=environment, check=True)
    found = backend.collect(Mode.TIME, tmp_path, 1)
    assert "work" in {region.name for region in found.tree.regions}
