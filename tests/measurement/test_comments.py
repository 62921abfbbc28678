"""Sources without comments: what compilers see of them, in C, C++ and both forms of Fortran."""

from __future__ import annotations

from pathlib import Path

import pytest

from buran.measurement.comments import words


def seen(folder: Path, name: str, text: str) -> str | None:
    file = folder / name
    file.write_text(text)
    return words(file)


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("a.c", "int a; // first\nint  b;\n", "\n/* both\n   of them */\nint a;\n\nint b; /* second */\n"),
        ("a.h", "#define A 1 // one\nint a;\n", "#define A 1\nint a;\n"),
        ("a.c", "#pragma omp parallel for // all\nfor (;;);\n", "#pragma omp parallel for\nfor (;;);\n"),
        ("a.F90", "x = 1 ! one\n! nothing\ny = 2\n", "x = 1\n\ny = 2\n"),
        ("a.f", "c nothing\n      x = 1\n", "      x = 1\n* more\n"),
    ],
)
def test_comments_and_blanks_are_not_seen(tmp_path: Path, name: str, one: str, other: str) -> None:
    assert seen(tmp_path, name, one) == seen(tmp_path, name, other) is not None


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("a.c", "#define A\nint b;\n", "#define A int b;\n"),
        ("a.c", 'char *a = "//";\n', 'char *a = "// ";\n'),
        ("a.cc", 'auto a = R"(/* a */)";\n', 'auto a = R"()";\n'),
        ("a.c", "#pragma omp simd\nfor (;;);\n", "for (;;);\n"),
        ("a.c", "int ab;\n", "int a b;\n"),
        ("a.f90", "!$omp parallel do\ndo i = 1, n\n", "do i = 1, n\n"),
        ("a.f90", "!DIR$ SIMD\ndo i = 1, n\n", "do i = 1, n\n"),
        ("a.f90", "x = 1\ny = 2\n", "x = 1 y = 2\n"),
        ("a.f90", "print *, '! a'\n", "print *, '! b'\n"),
        ("a.f", "c$omp parallel\n      x = 1\n", "      x = 1\n"),
    ],
)
def test_what_changes_the_program_is_seen(tmp_path: Path, name: str, one: str, other: str) -> None:
    assert seen(tmp_path, name, one) != seen(tmp_path, name, other)


def test_languages_that_are_not_known_have_no_words(tmp_path: Path) -> None:
    assert seen(tmp_path, "a.cu", "int a;\n") is None
