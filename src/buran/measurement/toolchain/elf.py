"""Reading what is needed of ELF files: a section by its name, needed libraries, functions."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from buran.errors import FormatError

MAGIC, WIDE = b"\x7fELF", 2
SYMBOL_TABLE, DYNAMIC, NOTE, NOBITS = 2, 6, 7, 8
PROGRAM, LIBRARY = 2, 3
NEEDED = 1
FUNCTION, LOCAL, UNDEFINED = 2, 0, 0


def is_elf(path: Path) -> bool:
    """Whether a file is a program, library or object."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


@dataclass(frozen=True)
class Section:
    """A section header: names as in the ELF specification, without their prefix."""

    name: str
    type: int
    offset: int
    size: int
    link: int
    entry_size: int
    address: int = 0


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

    def _unpack(self, layout: str, offset: int) -> tuple[int, ...]:
        try:
            return struct.unpack_from(("<" if self.data[5] == 1 else ">") + layout, self.data, offset)
        except struct.error:
            raise self._damaged("a table lies outside of the file") from None

    def _damaged(self, why: str) -> FormatError:
        return FormatError("a program is damaged", where=self.path, why=why)

    def _text(self, table: Section, offset: int) -> str:
        start = table.offset + offset
        end = self.data.find(b"\0", start, table.offset + table.size)
        if end < 0:
            raise self._damaged("a name has no end")
        return self.data[start:end].decode("utf-8", "replace")

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """All sections; none in a file whose section headers were stripped."""
        (start,) = self._unpack("Q", 40)
        size, count, names = self._unpack("HHH", 58)
        layout = "IIQQQQIIQQ"
        if start == 0:
            return ()
        if size < struct.calcsize(f"<{layout}"):
            raise self._damaged("section headers are too small")
        if count == 0 or names == 0xFFFF:  # too many for the header: the first section has the numbers
            first = self._unpack(layout, start)
            count, names = count or first[5], first[6] if names == 0xFFFF else names
        if start + count * size > len(self.data):
            raise self._damaged("section headers lie outside of the file")
        heads = [self._unpack(layout, start + i * size) for i in range(count)]
        plain = [Section("", head[1], head[4], head[5], head[6], head[9], head[3]) for head in heads]
        if names >= len(plain):
            raise self._damaged("section names are missing")
        return tuple(replace(s, name=self._text(plain[names], head[0])) for head, s in zip(heads, plain, strict=True))

    def section(self, name: str) -> bytes | None:
        """Contents of a section, None if there is none of this name; several of one name are joined."""
        sections = [section for section in self.sections if section.name == name and section.type != NOBITS]
        if any(section.offset + section.size > len(self.data) for section in sections):
            raise self._damaged(f"the section {name} is cut off")
        return b"".join(self.data[s.offset : s.offset + s.size] for s in sections) if sections else None

    @property
    def is_linked(self) -> bool:
        """Whether it is a program or a shared library, not an object."""
        return self._unpack("H", 16)[0] in (PROGRAM, LIBRARY)

    @property
    def loaded(self) -> Iterator[tuple[str, bytes]]:
        """Name and contents of the sections that a running program has in memory, notes left out."""
        for section in self.sections:
            if section.address and section.type not in (NOTE, NOBITS):
                yield section.name, self.data[section.offset : section.offset + section.size]

    def text_at(self, address: int) -> str:
        """Return the text at an address of the running program; raise `FormatError` where there is none."""
        for section in self.sections:
            if section.address and section.type != NOBITS and 0 <= address - section.address < section.size:
                return self._text(section, address - section.address)
        raise self._damaged(f"nothing is stored at the address {address:#x}")

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """Names of the shared libraries it is linked with."""
        libraries = []
        for section in self.sections:
            if section.type != DYNAMIC:
                continue
            strings = self._linked(section)
            for at in range(section.offset, section.offset + section.size, 16):
                tag, value = self._unpack("qQ", at)
                if tag == 0:
                    break
                if tag == NEEDED:
                    libraries.append(self._text(strings, value))
        return tuple(libraries)

    @cached_property
    def functions(self) -> tuple[Function, ...] | None:
        """Functions others may refer to; None if the symbol table was stripped."""
        if not self._tables:
            return None
        return tuple(
            Function(name, (section, value))
            for name, info, section, value in self._symbols()
            if info & 15 == FUNCTION and info >> 4 != LOCAL and section != UNDEFINED
        )

    @cached_property
    def undefined(self) -> frozenset[str]:
        """Names that others must define; none if the symbol table was stripped."""
        return frozenset(name for name, _, section, _ in self._symbols() if section == UNDEFINED)

    @cached_property
    def symbols(self) -> frozenset[str] | None:
        """Names of everything in the symbol table, local names too; None if it was stripped."""
        return frozenset(name for name, _, _, _ in self._symbols()) if self._tables else None

    @property
    def _tables(self) -> list[Section]:
        return [section for section in self.sections if section.type == SYMBOL_TABLE]

    def _symbols(self) -> Iterator[tuple[str, int, int, int]]:
        """Yield name, kind and binding, section and value."""
        for table in self._tables:
            strings = self._linked(table)
            step = 24
            for at in range(table.offset, table.offset + table.size - step + 1, step):
                name, info, _, section, value, _ = self._unpack("IBBHQQ", at)
                yield self._text(strings, name), info, section, value

    def _linked(self, section: Section) -> Section:
        if section.link >= len(self.sections):
            raise self._damaged("a string table is missing")
        return self.sections[section.link]
