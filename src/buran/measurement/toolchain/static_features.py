"""What is known of a program's functions before it runs: size, loops, calls, and what the filter did with them.

The compiler plugin puts the features of each object into the object itself (``native/llvm_static.h`` describes the
lines). Linking joins them, so a program holds those of all its objects. Here they are read from the program and from
the shared libraries that were built with it, and merged into one table.

Everything counts the code as the compiler's front end hands it over, before any optimisation: blocks and instructions
of the intermediate code, natural loops, and as statements the distinct source lines that have instructions.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from buran.errors import BuildError, FormatError
from buran.files import JsonObject
from buran.measurement.toolchain.elf import Elf
from buran.profiles.symbols import variants

SECTION = ".buran.static"
SCHEMA = 2
INDIRECT = "*"
# Functions that every program brings along, whoever compiled it.
# fmt: off
START_UP = frozenset((
    "_start", "_init", "_fini", "__libc_csu_init", "__libc_csu_fini", "_dl_relocate_static_pie",
    "atexit", "at_quick_exit", "pthread_atfork", "__pthread_atfork",  # of the C library, in each program
))
# fmt: on
THUNKS = ("_ZTh", "_ZTv", "_ZTc")  # adjust a pointer and go on to the function


@dataclass(frozen=True)
class Loop:
    """A natural loop: line of its head (0 if unknown), nesting depth from 1, and its basic blocks with inner ones."""

    line: int
    depth: int
    blocks: int


@dataclass(frozen=True)
class Call:
    """Call sites of one callee at one loop depth.

    The callee is a function's id, or ``*`` if only the run can tell; then `type` says what can be called there.
    """

    callee: str
    depth: int
    count: int
    type: str = ""


@dataclass(frozen=True)
class StaticFunction:
    """One function.

    Attributes
    ----------
    id
        Unique in the program: the symbol, for functions that only their unit knows with ``@`` and the unit behind it.
    name, mangled
        As shown, and the linker's symbol.
    file, line
        Where it is defined; empty and 0 without line tables.
    unit
        The source file that was compiled.
    linkage
        ``external``; ``internal`` (static); ``shared`` (inline, template: several units have it, the program one).
    inline
        Declared inline.
    hooked
        Whether it was selected for measurement.
    blocks, instructions
        Size in the compiler's intermediate code.
    statements
        Distinct source lines with instructions, None without line tables.
    branches
        Places where control goes one of several ways.
    type
        Result and parameters as they are passed, in the same words as in `Call`.
    address_taken
        Whether its address is taken anywhere in the program, as by a table of virtual functions.
    loops, calls
        In the order of the source.
    """

    id: str
    name: str
    mangled: str
    file: str
    line: int
    unit: str
    linkage: str
    inline: bool
    hooked: bool
    blocks: int
    instructions: int
    statements: int | None
    branches: int
    type: str
    address_taken: bool
    loops: tuple[Loop, ...]
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class StaticFeatures:
    """All functions of a program.

    Attributes
    ----------
    functions
        Sorted by id.
    units
        Source files that were compiled with the plugin, sorted.
    unmatched_lines
        Lines of the filter file with a rule that matches nothing in the whole program.
    foreign
        Functions of the program that were compiled without the plugin, sorted; None if the program was stripped.
    """

    functions: tuple[StaticFunction, ...]
    units: tuple[str, ...]
    unmatched_lines: tuple[int, ...]
    foreign: tuple[str, ...] | None

    def to_jsonl(self) -> str:
        """Return JSON Lines: a head, then one line for each function."""
        head = {"schema": SCHEMA, "units": self.units, "unmatched_lines": self.unmatched_lines, "foreign": self.foreign}
        return "".join(json.dumps(line) + "\n" for line in (head, *map(asdict, self.functions)))

    @classmethod
    def from_jsonl(cls, text: str, where: str | Path = "static features") -> StaticFeatures:
        """Read what `to_jsonl` wrote; raise `FormatError` for anything else."""
        try:
            head, *lines = map(json.loads, text.splitlines())
            if head["schema"] != SCHEMA:
                raise ValueError(f"schema {head['schema']}, this reader knows {SCHEMA}")
            foreign = head["foreign"]
            return cls(
                tuple(map(_function, lines)),
                tuple(head["units"]),
                tuple(head["unmatched_lines"]),
                None if foreign is None else tuple(foreign),
            )
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise FormatError("these are no static features", where=where, why=str(error)) from None


def read_static_features(binary: Path, tree: Path, runtime: Collection[str] = ()) -> StaticFeatures | None:
    """Read the features of a program.

    Parameters
    ----------
    binary
        The program.
    tree
        Folder it was built in: file names below become relative to it, and its shared libraries are looked for here.
    runtime
        Functions of the measurement runtime.

    Returns
    -------
    StaticFeatures or None
        None if no object of the program was compiled with the plugin.

    Raises
    ------
    BuildError
        If objects were compiled with different filters: the profile would be one of no filter.
    FormatError
        If the program is damaged.
    """
    files = [Elf.read(path) for path in (binary, *libraries_of(binary, tree))]
    sections = [(file, file.section(SECTION)) for file in files]
    units = [unit for file, data in sections if data for unit in _units(data, file.path)]
    if not units:
        return None
    if len({unit.filter for unit in units}) > 1:
        examples = {unit.filter: unit.source for unit in units}
        raise BuildError(
            "objects of one program were compiled with different filters",
            where=binary,
            why="for example " + " and ".join(sorted(examples.values())[:2]),
            hint="build everything again after a change of the filter (make clean)",
        )
    merged: dict[str, StaticFunction] = {}
    taken = {symbol for unit in units for symbol in unit.taken}
    for unit in units:
        for function in unit.functions(tree, taken):
            merged.setdefault(function.id, function)
    matched = {rule for unit in units for rule in unit.matched}
    rules = units[0].rules
    return StaticFeatures(
        functions=tuple(merged[name] for name in sorted(merged)),
        units=tuple(sorted({_relative(unit.source, tree) for unit in units})),
        unmatched_lines=tuple(sorted({line for rule, line in enumerate(rules) if rule not in matched})),
        foreign=_foreign(files[0], {function.mangled for function in merged.values()} | set(runtime) | START_UP),
    )


def libraries_of(binary: Path, tree: Path) -> tuple[Path, ...]:
    """Return the shared libraries below `tree` that a program needs, directly or through others, sorted."""
    candidates: dict[str, Path] = {}
    for path in sorted(tree.rglob("*.so*")):
        if path.is_file():
            candidates.setdefault(path.name, path)
    needed: dict[str, Path] = {}
    waiting = [binary]
    while waiting:
        for name in Elf.read(waiting.pop()).needed:
            if name in candidates and name not in needed:
                needed[name] = candidates[name]
                waiting.append(candidates[name])
    return tuple(sorted({path.resolve() for path in needed.values()}))


def notes_on(features: StaticFeatures, filter_text: str = "") -> tuple[str, ...]:
    """Return what a user should know of a build, in sentences."""
    notes = []
    lines = filter_text.split("\n")
    every = {symbol for function in features.functions for symbol in variants(function.mangled)}
    for number in features.unmatched_lines:
        text = lines[number - 1].strip() if number <= len(lines) else ""
        if included_symbols(text) & every:
            continue  # another symbol of a constructor that is there
        notes.append(f"filter line {number} ({text}): a rule matches no function of the program")
    hooked = {function.mangled for function in features.functions if function.hooked}
    bare = {function.mangled for function in features.functions} - hooked
    if missing := sorted(included_symbols(filter_text) & bare):
        some = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        notes.append(f"{len(missing)} functions of the filter cannot be instrumented: {some}")
    if features.foreign is None:
        notes.append("The program is stripped: whether all of it was compiled with the wrappers is unknown.")
    elif features.foreign:
        some = ", ".join(features.foreign[:5]) + (", ..." if len(features.foreign) > 5 else "")
        what = "The program's main function was" if "main" in features.foreign else "Parts of the program were"
        notes.append(
            f"{what} compiled without Buran's wrappers; these {len(features.foreign)} functions are not instrumented "
            f"and their basic blocks are not counted: {some}"
        )
    return tuple(notes)


def included_symbols(filter_text: str) -> frozenset[str]:
    """Return the linker symbols that a filter of ours names."""
    lines = (line.split() for line in filter_text.splitlines())
    return frozenset(words[2] for words in lines if words[:2] == ["INCLUDE", "MANGLED"] and len(words) == 3)


@dataclass(frozen=True)
class _Unit:
    source: str
    filter: str
    rules: tuple[int, ...]
    matched: frozenset[int]
    taken: frozenset[str]
    defined: list[StaticFunction] = field(default_factory=list)

    def functions(self, tree: Path, taken: Collection[str]) -> Iterable[StaticFunction]:
        source = _relative(self.source, tree)
        ids = {each.mangled: f"{each.mangled}@{source}" for each in self.defined if each.linkage == "internal"}
        for each in self.defined:
            symbol = each.mangled
            yield replace(
                each,
                id=ids.get(symbol, symbol),
                file=_relative(each.file, tree),
                unit=source,
                address_taken=symbol in (self.taken if symbol in ids else taken),
                calls=tuple(replace(call, callee=ids.get(call.callee, call.callee)) for call in each.calls),
            )


def _units(data: bytes, where: Path) -> list[_Unit]:
    units: list[_Unit] = []
    try:
        for text in data.replace(b"\0", b"").decode("utf-8", "replace").splitlines():
            line = json.loads(text)
            if "unit" in line:
                matched, taken = frozenset(line["matched"]), frozenset(line["taken"])
                units.append(_Unit(line["unit"], line["filter"], tuple(line["rules"]), matched, taken))
            else:
                units[-1].defined.append(_function({**line, "id": "", "unit": "", "address_taken": False}))
        return units
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise FormatError("the static features of a program are damaged", where=where, why=str(error)) from None


def _function(line: JsonObject) -> StaticFunction:
    loops, calls = (Loop(**loop) for loop in line["loops"]), (_call(Call(**call)) for call in line["calls"])
    return StaticFunction(**{**line, "loops": tuple(loops), "calls": tuple(calls)})


def _call(call: Call) -> Call:
    is_indirect = call.callee.startswith(INDIRECT)
    return replace(call, callee=INDIRECT, type=call.callee[1:] or call.type) if is_indirect else call


def _relative(path: str, tree: Path) -> str:
    for folder in (tree, tree.resolve()):
        if path.startswith(f"{folder}/"):
            return path[len(str(folder)) + 1 :]
    return path


def _foreign(binary: Elf, measured: Collection[str]) -> tuple[str, ...] | None:
    functions = binary.functions
    if functions is None:
        return None
    addresses = {function.address for function in functions if function.name in measured}  # constructors have aliases
    names: Sequence[str] = [f.name for f in functions if f.name not in measured and f.address not in addresses]
    return tuple(sorted({name for name in names if not name.startswith(THUNKS)}))
