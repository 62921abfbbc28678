"""What a build that fails is said to have failed of."""

from __future__ import annotations

from pathlib import Path

import pytest

from buran.measure.build import _first_error


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        ("mpicc -c a.c\na.c:3:5: error: 'x' undeclared\nmake: *** [a.o] Error 1\n", ", a.c:3:5: error: 'x' undeclared"),
        ("a.f90:71:28:\n\n   71 | call\nError: Type mismatch (1)\n", ", Error: Type mismatch (1)"),
        ("ld: a.o: undefined reference to `f'\n", ", ld: a.o: undefined reference to `f'"),
        ("bash: line 2: nvcc: command not found\n", ", bash: line 2: nvcc: command not found"),
        ("CMake Error at CMakeLists.txt:3 (find_package):\n", ", CMake Error at CMakeLists.txt:3 (find_package):"),
        ("make: *** No rule to make target 'a'.  Stop.\n", ", make: *** No rule to make target 'a'.  Stop."),
        ("gcc -c error.c -Werror -o error.o\n", ""),
        ("", ""),
    ],
)
def test_the_first_error_of_a_build_is_shown(log: str, shown: str, tmp_path: Path) -> None:
    (tmp_path / "build.log").write_text(log)
    assert _first_error(tmp_path / "build.log") == shown


def test_a_long_line_is_cut_and_foreign_bytes_are_borne(tmp_path: Path) -> None:
    (tmp_path / "build.log").write_bytes(b"\xff error: " + b"x" * 1000)
    assert 100 < len(_first_error(tmp_path / "build.log")) < 200
