"""Which language a source file is in, by the end of its name."""

from __future__ import annotations

from pathlib import Path

C = (".c",)
CXX = (".cc", ".cpp", ".cxx", ".c++", ".C")
CXX_HEADERS = (".hh", ".hpp", ".hxx", ".ipp", ".tcc")
HEADERS = (".h", ".inl", *CXX_HEADERS)  # of C and C++
FIXED_FORM = (".f", ".for", ".ftn", ".f77")
FREE_FORM = (".f90", ".f95", ".f03", ".f08", ".f18", ".fpp")


def suffix(path: Path) -> str:
    """Return the end of a file's name as the lists here spell it: small letters, but for ``.C``, which is C++."""
    return path.suffix if path.suffix in CXX else path.suffix.lower()


def is_fortran(path: Path) -> bool:
    """Tell whether a file is a source in Fortran."""
    return suffix(path) in FIXED_FORM + FREE_FORM


def is_c_like(path: Path) -> bool:
    """Tell whether a file is a source or header in C or C++."""
    return suffix(path) in C + CXX + HEADERS


def is_source(path: Path) -> bool:
    """Tell whether a compiler reads a file, be it as a part of another (``.inc``, of any language)."""
    return is_fortran(path) or is_c_like(path) or suffix(path) == ".inc"
