"""Reading what is needed of ELF files: a section by its name, needed libraries, functions."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from buran.errors import FormatError

MAGIC, WIDE = b"\x7fELF", 2
SYMBOL_TABLE, DYNAMIC, NOTE, NOBITS = 2, 6, 7, 8
PROGRAM, LIBRARY = 2, 3
NEEDED = 1
FUNCTION, LOCAL, UNDEFINED = 2, 0, 0
_TYPE, _SECTIONS, _SECTION_COUNT = 16, 40, 60  # where the head has them


def is_elf(path: Path) -> bool:
    """Whether a file is a program, library or object."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


@dataclass(frozen=True)
class Section:
    """A section, with the words of the ELF specification."""

    name: str
    type: int
    address: int
    link: int
    content: bytes


@dataclass(frozen=True)
class Function:
    """A function that a file defines and that others may refer to."""

    name: str
    address: tuple[int, int]  # section and address: aliases share them


@dataclass(frozen=True)
class Elf:
    """A program, a library or an object.

    Attributes
    ----------
    path
        For messages.
    data
        The file's contents.
    """

    path: Path
    data: bytes

    @classmethod
    def read(cls, path: Path) -> Elf:
        """Read a file; raise `FormatError` if it is none or cannot be read."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise FormatError("a program cannot be read", where=path, why=error.strerror) from None
        if len(data) < 64 or data[:4] != MAGIC or data[4] != WIDE or data[5] not in (1, 2):
            why = "it has no ELF header of 64 bits"
            raise FormatError("this is no program, library or object", where=path, why=why)
        return cls(path, data)

    @property
    def _order(self) -> str:
        return "<" if self.data[5] == 1 else ">"

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (struct.error, ValueError, IndexError, OverflowError) as error:
            raise FormatError("a program is damaged", where=self.path, why=str(error)) from None

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """All sections; none in a file whose section headers were stripped."""
        with self._reading():
            (start,) = struct.unpack_from(f"{self._order}Q", self.data, _SECTIONS)
            count, names = struct.unpack_from(f"{self._order}HH", self.data, _SECTION_COUNT)
            layout = struct.Struct(f"{self._order}IIQQQQIIQQ")
            if start == 0:
                return ()
            if count == 0 or names == 0xFFFF:  # too many for the header: the first section has the numbers
                first = layout.unpack_from(self.data, start)
                count, names = count or first[5], first[6] if names == 0xFFFF else names
            heads = [layout.unpack_from(self.data, start + number * layout.size) for number in range(count)]
            texts = self.data[heads[names][4] :]
            return tuple(
                Section(_text(texts, name), kind, address, link, b"" if kind == NOBITS else self.data[at : at + size])
                for name, kind, _, address, at, size, link, *_ in heads
            )

    def section(self, name: str) -> bytes | None:
        """Contents of a section, None if there is none of this name; several of one name are joined."""
        contents = [section.content for section in self.sections if section.name == name and section.type != NOBITS]
        return b"".join(contents) if contents else None

    @property
    def is_linked(self) -> bool:
        """Whether it is a program or a shared library, not an object."""
        (kind,) = struct.unpack_from(f"{self._order}H", self.data, _TYPE)
        return kind in (PROGRAM, LIBRARY)

    @property
    def loaded(self) -> Iterator[tuple[str, bytes]]:
        """Name and contents of the sections that a running program has in memory, notes left out."""
        for section in self.sections:
            if section.address and section.type not in (NOTE, NOBITS):
                yield section.name, section.content

    def text_at(self, address: int) -> str:
        """Return the text at an address of the running program; raise `FormatError` where there is none."""
        with self._reading():
            for section in self.sections:
                if section.address and 0 <= address - section.address < len(section.content):
                    return _text(section.content, address - section.address)
            raise ValueError(f"nothing is stored at the address {address:#x}")

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """Names of the shared libraries it is linked with."""
        with self._reading():
            return tuple(
                _text(self.sections[section.link].content, value)
                for section in self.sections
                if section.type == DYNAMIC
                for tag, value in struct.iter_unpack(f"{self._order}qQ", section.content)
                if tag == NEEDED
            )

    @cached_property
    def functions(self) -> tuple[Function, ...] | None:
        """Functions others may refer to; None if the symbol table was stripped."""
        if not self._has_symbols:
            return None
        return tuple(
            Function(name, (section, value))
            for name, info, section, value in self._symbols
            if info & 15 == FUNCTION and info >> 4 != LOCAL and section != UNDEFINED
        )

    @cached_property
    def undefined(self) -> frozenset[str]:
        """Names that others must define; none if the symbol table was stripped."""
        return frozenset(name for name, _, section, _ in self._symbols if section == UNDEFINED)

    @cached_property
    def symbols(self) -> frozenset[str] | None:
        """Names of everything in the symbol table, local names too; None if it was stripped."""
        return frozenset(name for name, _, _, _ in self._symbols) if self._has_symbols else None

    @property
    def _has_symbols(self) -> bool:
        return any(section.type == SYMBOL_TABLE for section in self.sections)

    @cached_property
    def _symbols(self) -> list[tuple[str, int, int, int]]:
        """Name, kind and binding, section and value."""
        with self._reading():
            return [
                (_text(self.sections[table.link].content, name), info, section, value)
                for table in self.sections
                if table.type == SYMBOL_TABLE
                for name, info, _, section, value, _ in struct.iter_unpack(f"{self._order}IBBHQQ", table.content)
            ]


def _text(table: bytes, at: int) -> str:
    return table[at : table.index(b"\0", at)].decode("utf-8", "replace")
