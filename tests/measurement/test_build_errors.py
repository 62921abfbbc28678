"""What a build that fails is said to have failed of."""

from __future__ import annotations

from pathlib import Path

import pytest

from buran.errors import BuildError
from buran.files import not_synced
from buran.measurement.build import build, check_build, first_error, next_step
from buran.workflow.plan import first_plan
from buran.workflow.session import open_session
from command_campaigns import write_campaign


@pytest.mark.parametrize(
    ("command", "said"),
    [("true", "made no file 'program' (program.binary)"), ("echo such is the mistake; exit 1", "such is the mistake")],
)
def test_a_build_that_every_point_needs_stops_the_campaign(
    command: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURAN_LOCK_FOLDER", str(tmp_path))
    program = {"source": "source", "build": command, "binary": "program", "run": "{binary} {n}"}
    with not_synced():
        session = open_session(write_campaign(tmp_path, {}, program=program))
        (spec, *_) = first_plan(session).builds
        outcome = build(session.target, session.layout, spec)
    with pytest.raises(BuildError) as caught:
        check_build(session.layout, spec, outcome)
    assert said in str(caught.value.why) and str(caught.value.where).endswith("build.log")


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        ("mpicc -c a.c\na.c:3:5: error: 'x' undeclared\nmake: *** [a.o] Error 1\n", "a.c:3:5: error: 'x' undeclared"),
        ("a.f90:71:28:\n\n   71 | call\nError: Type mismatch (1)\n", "Error: Type mismatch (1)"),
        (
            "CMake Error at CMakeLists.txt:2 (message):\n  No BLT.\n",
            "CMake Error at CMakeLists.txt:2 (message): No BLT.",
        ),
        ("ld: a.o: undefined reference to `f'\n", "ld: a.o: undefined reference to `f'"),
        ("make[1]: *** [a.o] Error 1\nld: undefined reference to `g'\n", "ld: undefined reference to `g'"),
        ("bash: line 2: nvcc: command not found\n", "bash: line 2: nvcc: command not found"),
        ("CMake Error at CMakeLists.txt:3 (find_package):\n", "CMake Error at CMakeLists.txt:3 (find_package):"),
        ("make: *** No rule to make target 'a'.  Stop.\n", "make: *** No rule to make target 'a'.  Stop."),
        ("ld: b.o:(.bss+0x0): multiple definition of `x'\n", "ld: b.o:(.bss+0x0): multiple definition of `x'"),
        ('a.c:3: warning: unused\n  printf("Error: %d", n);\nld: error: no x\n', "ld: error: no x"),
        ("gcc -c error.c -Werror -o error.o\n", ""),
        ("", ""),
    ],
)
def test_the_first_error_of_a_build_is_shown(log: str, shown: str) -> None:
    assert first_error(log) == shown


def test_a_long_line_is_cut() -> None:
    assert 100 < len(first_error("error: " + "x" * 1000)) < 200


def test_c_of_before_1999_is_named_where_the_compiler_refuses_it() -> None:
    refused = "a.c:3:6: error: call to undeclared library function 'strcmp' [-Wimplicit-function-declaration]\n"
    assert "compiler: gcc" in next_step(refused)
    assert "compiler: gcc" not in next_step(refused.replace("error", "warning"))
