"""Which functions of a program Score-P's compiler plugin gave hooks, and what a user should know of them."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from buran.measurement.toolchain.elf import Elf
from buran.profiles.symbols import symbols_alike

HOOKS_SECTION = ".scorep.region.descrs"
HOOK_BYTES = 64  # one description a function
_NAME_AT = 8  # in a description; behind it the symbol and the file
_MARKERS = 2  # descriptions without a function, at the section's ends
_CLANGS_LAMBDA = re.compile(r"\$_\d+")
_STANDARD_LIBRARY = re.compile(r"_Z(N[KVRO]*)?S[tabsiod]")


@dataclass(frozen=True, order=True)
class HookedFunction:
    """A function as Score-P's compiler plugin describes it in the program."""

    symbol: str
    name: str
    file: str


def hooked_functions(file: Elf) -> frozenset[HookedFunction] | None:
    """Return the functions that Score-P's compiler plugin hooked; None if the program does not say.

    The plugin describes each function in a section of its own: pointers to a handle, to the name, to the symbol and to
    the file, and two lines. Two empty descriptions mark its ends. Linkers that leave pointers to the loader leave
    nothing to read.
    """
    described = file.section(HOOKS_SECTION) or b""
    hooked, empty = set(), 0
    for start in range(0, len(described) - HOOK_BYTES + 1, HOOK_BYTES):
        name, symbol, source = struct.unpack_from("<QQQ", described, start + _NAME_AT)
        if symbol:
            hooked.add(HookedFunction(*(file.text_at(each) if each else "" for each in (symbol, name, source))))
        else:
            empty += 1
    return None if empty > _MARKERS else frozenset(hooked)


def notes_on_hooks(
    hooked: frozenset[HookedFunction] | None, wanted: frozenset[str], compiler: str = ""
) -> tuple[str, ...]:
    """Return what a user should know of the hooks of a build, in sentences.

    Parameters
    ----------
    wanted
        Symbols that a filter includes.
    compiler
        That Score-P was made for.
    """
    if hooked is None:
        return ("The program does not show which functions are instrumented.",)
    recorded = set(symbols_alike(each.symbol for each in hooked))
    every = sorted(wanted)
    alike = dict(zip(symbols_alike(every), every, strict=True))
    missing = [name for common, name in alike.items() if common not in recorded]
    by = f"Score-P{f' ({compiler})' if compiler else ''}"
    groups: dict[str, list[str]] = {}
    for name in missing:
        if compiler.startswith("gnu") and _CLANGS_LAMBDA.search(name):
            why = "they are lambda functions under clang's names"
        elif _STANDARD_LIBRARY.match(name):
            why = "they stand in system headers, which it does not instrument"
        else:
            why = "they are absent or were inlined away"
        groups.setdefault(why, []).append(name)
    return tuple(
        f"{len(names)} functions of the filter cannot be recorded by {by}, {why}: {', '.join(names[:5])}"
        + (", ..." if len(names) > 5 else "")
        for why, names in groups.items()
    )
