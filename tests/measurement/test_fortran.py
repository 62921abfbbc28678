"""Fortran programs with MPI: names, call paths, blocks and bytes that are known by hand."""

import subprocess

import pytest
from native_programs import PROGRAMS, build, launch, regions, table, toolchain, write_filter

from buran.errors import ToolError
from buran.measurement.merge_dumps import read_dumps
from buran.measurement.toolchain.toolchain import Toolchain
from buran.measurement.toolchain.wrappers import FC, MPIFORT, translate

pytestmark = pytest.mark.mpi

N, STEPS, RANKS = 100, 10, 3
INTERFACES = ("MPIF", "USE_MPI", "USE_MPI_F08")
COMPILERS = ("gcc", pytest.param("auto", marks=pytest.mark.slow))  # gfortran beside gcc, and beside clang


def with_fortran(compiler):
    found = toolchain(compiler)
    if not found.fc or not found.mpifort:
        pytest.skip(found.fortran_missing or "this MPI has no compiler wrapper for Fortran")
    if not found.fortran_plugin:
        pytest.skip("gfortran has no headers for plugins on this machine")
    return found


@pytest.fixture(scope="module", params=COMPILERS)
def tools(request):
    return with_fortran(request.param)


def compile_heat(tools, binary, interface, *, level="-O2", filter_file=None, mode="effort", counter="register"):
    # Without explicit interfaces a buffer seems to change its type from call to call.
    flags = (level, f"-D{interface}", f"-J{binary.parent}", "-fallow-argument-mismatch", "-w")
    return build("heat.F90", binary, flags=flags, filter_file=filter_file, mode=mode, counter=counter, tools=tools)


def run_heat(binary, folder, tools, ranks=RANKS):
    done = launch(binary, folder, str(N), str(STEPS), ranks=ranks, tools=tools)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, read_dumps(folder, ranks)


@pytest.fixture(scope="module")
def profile(tools, tmp_path_factory):
    folder = tmp_path_factory.mktemp("heat")
    return run_heat(compile_heat(tools, folder / "heat", "USE_MPI"), folder / "run", tools)[1]


def test_visits_of_procedures(profile):
    visits = table(profile, "visits")
    expected = {
        "MAIN__": 1,
        "MAIN__->rod::start": 1,
        "MAIN__->MAIN__::swap": STEPS,
        "MAIN__->rod::advance": STEPS,
        "MAIN__->total": 1,
        "MAIN__->MAIN__::others": 1,
    }
    assert {name: visits[name] for name in expected} == {name: [count] * RANKS for name, count in expected.items()}
    assert regions(profile) >= {name.split("->")[-1] for name in expected}


def test_regions_know_their_source(profile):
    lines = (PROGRAMS / "heat.F90").read_text().splitlines()
    by_name = {region.name: region for region in profile.tree.regions}
    for name, mangled in {"rod::advance": "__rod_MOD_advance", "total": "total_", "MAIN__": "MAIN__"}.items():
        region = by_name[name]
        assert region.mangled == mangled and region.file.endswith("programs/heat.F90")
        assert {"MAIN__": "program heat"}.get(name, name.split("::")[-1]) in lines[region.line - 1]


def test_bytes_and_calls_of_operations(profile):
    """The rules of Score-P, by hand: 8 bytes in a REAL(8), 4 in an INTEGER; N ranks."""
    real, integer = 8, 4
    every = [1] * RANKS
    swap, others = "MAIN__->MAIN__::swap->", "MAIN__->MAIN__::others->"
    # calls, bytes sent and received, for each rank
    expected = {
        f"{swap}MPI_Irecv": ([2 * STEPS] * RANKS, [0] * RANKS, [0] * RANKS),
        f"{swap}MPI_Isend": ([2 * STEPS] * RANKS, [2 * STEPS * real] * RANKS, [0] * RANKS),
        f"{swap}MPI_Waitall": ([STEPS] * RANKS, [0] * RANKS, [2 * STEPS * real] * RANKS),
        "MAIN__->MPI_Init": (every, [0] * RANKS, [0] * RANKS),
        "MAIN__->MPI_Cart_create": (every, [0] * RANKS, [0] * RANKS),
        "MAIN__->MPI_Reduce": (every, [real] * RANKS, [RANKS * real, 0, 0]),
        "MAIN__->MPI_Allreduce": (every, [(RANKS - 1) * real] * RANKS, [(RANKS - 1) * real] * RANKS),  # in place
        f"{others}MPI_Gatherv": (every, [integer, 2 * integer, 3 * integer], [6 * integer, 0, 0]),
        f"{others}MPI_Sendrecv": (every, [integer] * RANKS, [integer] * RANKS),
        f"{others}MPI_Irecv": (every, [0] * RANKS, [0] * RANKS),
        f"{others}MPI_Send": (every, [integer] * RANKS, [0] * RANKS),
        f"{others}MPI_Waitany": (every, [0] * RANKS, [integer] * RANKS),
        f"{others}MPI_Test": (every, [0] * RANKS, [0] * RANKS),
        f"{others}MPI_Barrier": (every, [0] * RANKS, [0] * RANKS),
        "MAIN__->MPI_Finalize": (every, [0] * RANKS, [0] * RANKS),
    }
    found = {
        name: tuple(table(profile, metric)[name] for metric in ("visits", "bytes_sent", "bytes_received"))
        for name in table(profile, "visits")
        if name.split("->")[-1].startswith("MPI_")
    }
    assert found == expected  # nothing twice, nothing missing, nothing else


def test_blocks_of_loops(tools, tmp_path):
    """Without optimisation every turn of a loop has the same blocks, whatever the number of cells."""
    binary = compile_heat(tools, tmp_path / "heat", "USE_MPI", level="-O0")
    blocks = {}
    for n in (50, 100, 200):
        folder = tmp_path / str(n)
        assert launch(binary, folder, str(n), str(STEPS), ranks=2, tools=tools).returncode == 0
        counts = table(read_dumps(folder, 2), "basic_blocks")
        blocks[n] = counts["MAIN__->rod::advance"]
    more, more_again = (blocks[100][0] - blocks[50][0], blocks[200][0] - blocks[100][0])
    assert more_again == 2 * more
    assert more % (50 * STEPS) == 0 and more // (50 * STEPS) >= 4  # two loops with two blocks or more
    assert blocks[100][0] == blocks[100][1]


@pytest.mark.parametrize("interface", INTERFACES)
def test_all_ways_to_mpi_give_the_same_profile(tools, profile, tmp_path, interface):
    binary = compile_heat(tools, tmp_path / "heat", interface)
    output, own = run_heat(binary, tmp_path / "run", tools)
    for metric in ("visits", "bytes_sent", "bytes_received", "communicator_size_sum"):
        assert metric in profile.metrics
        assert table(own, metric) == table(profile, metric)
    original = compile_heat(tools, tmp_path / "original", interface, mode="vanilla")
    plain = launch(original, tmp_path / "none", str(N), str(STEPS), ranks=RANKS, tools=tools)
    assert plain.stdout == output and output.strip()


def test_arguments_that_are_hard_to_pass_on(tools, tmp_path):
    """Weights, arrays of types, new communicators and windows, matched messages: the program checks its results."""
    flags = ("-O2", f"-J{tmp_path}")
    binary = build("operations.f90", tmp_path / "operations", flags=flags, mode="time", tools=tools)
    done = launch(binary, tmp_path / "run", ranks=3, tools=tools)
    assert done.returncode == 0, done.stdout + done.stderr
    own = read_dumps(tmp_path / "run", 3)
    visits = table(own, "visits")
    for name in (
        "Dist_graph_create_adjacent",
        "Neighbor_allgather",
        "Neighbor_alltoallv",
        "Neighbor_alltoallw",
        "Comm_idup",
        "Mrecv",
        "Put",
    ):
        assert visits[f"MAIN__->MPI_{name}"] == [1, 1, 1]
    # Two exchanges of one INTEGER with each process, the second in place.
    assert visits["MAIN__->MPI_Alltoallw"] == [2, 2, 2]
    assert table(own, "bytes_sent")["MAIN__->MPI_Alltoallw"] == [4 * (3 + 2)] * 3
    assert table(own, "bytes_received")["MAIN__->MPI_Mrecv"] == [4] * 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "level", ["-O0", "-O2", *(pytest.param(level, marks=pytest.mark.thorough) for level in ("-O1", "-O3"))]
)
def test_counting_in_a_register_is_exact(tools, tmp_path, level):
    seen = []
    filter_file = write_filter(tmp_path, "INCLUDE *")
    for counter in ("register", "memory"):
        binary = compile_heat(
            tools, tmp_path / counter, "USE_MPI", level=level, counter=counter, filter_file=filter_file
        )
        _, own = run_heat(binary, tmp_path / f"run-{counter}", tools)
        seen.append((table(own, "basic_blocks"), table(own, "visits")))
    assert seen[0] == seen[1]


def test_filter_names_procedures(tools, tmp_path):
    rules = "EXCLUDE *\nINCLUDE rod::a* total MANGLED MAIN__"
    binary = compile_heat(tools, tmp_path / "heat", "USE_MPI", filter_file=write_filter(tmp_path, rules), mode="time")
    _, own = run_heat(binary, tmp_path / "run", tools, ranks=1)
    assert {region.name for region in own.tree.regions if region.file.endswith(".F90")} == {
        "rod::advance",
        "total",
        "MAIN__",
    }


def test_fortran_and_cxx_in_one_program(tmp_path):
    tools = with_fortran("auto")
    (tmp_path / "sum.f90").write_text(
        "subroutine add_up(n, s) bind(c)\n use iso_c_binding\n integer(c_int), value :: n\n"
        " integer(c_int), intent(out) :: s\n integer :: i\n s = 0\n do i = 1, n\n  if (mod(i, 3) == 0) s = s + i\n"
        " end do\nend subroutine\n"
    )
    (tmp_path / "main.cpp").write_text(
        '#include <mpi.h>\nextern "C" void add_up(int, int *);\n'
        "int main(int c, char **v) { MPI_Init(&c, &v); int s; add_up(10, &s); MPI_Finalize(); return s != 18; }\n"
    )
    build(tmp_path / "sum.f90", tmp_path / "sum.o", flags=("-O1", "-c"), tools=tools)
    binary = build(tmp_path / "main.cpp", tmp_path / "t", flags=("-O1", str(tmp_path / "sum.o")), tools=tools)
    done = launch(binary, tmp_path / "run", ranks=1, tools=tools)
    assert done.returncode == 0, done.stderr
    assert table(read_dumps(tmp_path / "run", 1), "visits")["main->add_up"] == [1]


def test_every_operation_of_the_c_layer_is_caught(tools, tmp_path):
    """What mpi.c wraps and Open MPI's Fortran library knows must have its Fortran name too."""
    if tools.mpi != "openmpi":
        pytest.skip("the Fortran library of other MPIs calls the C operations")

    def symbols(path, *options):
        lines = subprocess.run(["nm", *options, path], capture_output=True, text=True, check=True).stdout.splitlines()
        return {line.split()[2] for line in lines if len(line.split()) == 3 and line.split()[1] in "TW"}

    (library,) = {
        line.split("=> ")[1].split(" ")[0] for line in linked_libraries(tools, tmp_path) if "libmpi_mpifh" in line
    }
    parts = {path.rsplit("/", 1)[1]: path for path in tools.objects["effort"]}
    wrapped = {f"{name.lower()}_" for name in symbols(parts["mpi.o"]) if name.startswith("MPI_")}
    fortran = symbols(parts["mpi_fortran.o"])
    assert not (wrapped & symbols(library, "-D")) - fortran
    assert {f"{name}f08_" for name in fortran if not name.endswith(("f08_", "cptr_"))} <= fortran


def linked_libraries(tools, folder):
    (folder / "empty.f90").write_text("call mpi_init(i)\nend\n")
    subprocess.run([tools.mpifort, "empty.f90", "-o", "empty"], cwd=folder, check=True)
    done = subprocess.run(["ldd", folder / "empty"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_wrapper_without_a_fortran_compiler():
    tools = Toolchain(
        kind="clang-plugin",
        cc="clang",
        cxx="clang++",
        compiler_version="",
        plugin=None,
        objects={},
        mpicc="/opt/mpi/bin/mpicc",
        mpicxx="",
        mpiexec="",
        mpi="mpich",
        mpi_version="",
        notes=(),
        fingerprint="",
        fortran_missing="no gfortran in PATH (apt install gfortran)",
    )
    for wrapper in (FC, MPIFORT):
        with pytest.raises(ToolError) as caught:
            translate(["-c", "x.f90"], wrapper=wrapper, mode="time", toolchain=tools)
        assert caught.value.where == wrapper.name and caught.value.why == tools.fortran_missing
    tools = Toolchain(**{**vars(tools), "fc": "gfortran"})
    with pytest.raises(ToolError) as caught:
        translate(["-c", "x.f90"], wrapper=MPIFORT, mode="time", toolchain=tools)
    assert caught.value.where == "/opt/mpi/bin/mpicc"
