"""Small runs in the formats of other tools, written here for tests; no tool has made them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

RankTimes = Sequence[Mapping[tuple[str, ...], float]]
"""For each rank the exclusive times of call paths, in microseconds."""


def tau(folder: Path, ranks: RankTimes, metadata: Mapping[str, object] | None = None, *, flat: bool = False) -> Path:
    """Write a folder with a profile of each rank, below TAU's root."""
    folder.mkdir(parents=True)
    told = {
        "Metric Name": folder.name.removeprefix("MULTI__") if "MULTI__" in folder.name else "TIME",
        **(metadata or {}),
    }
    attributes = "".join(f"<attribute><name>{k}</name><value>{v}</value></attribute>" for k, v in told.items())
    for rank, times in enumerate(ranks):
        rows = [f'".TAU application" 1 1 0 {sum(times.values()):.0f} 0 GROUP="TAU_DEFAULT"']
        for path, own in times.items():
            inclusive = sum(value for other, value in times.items() if other[: len(path)] == path)
            name = path[-1] if flat else "  => ".join((".TAU application", *path))
            rows.append(f'"{name}" 2 0 {own} {inclusive} 0 GROUP="TAU_USER|TAU_CALLPATH"')
        head = f"{len(rows)} templated_functions_MULTI_TIME\n"
        head += f"# Name Calls Subrs Excl Incl ProfileCalls # <metadata>{attributes}</metadata>\n"
        (folder / f"profile.{rank}.0.0").write_text(head + "\n".join(rows) + "\n0 aggregates\n")
    return folder


def hpctoolkit(folder: Path, ranks: Sequence[tuple[float, float, float]]) -> Path:
    """Write a database of version 4: ``meta.db``, ``profile.db`` and ``cct.db``.

    The program has ``main``, a loop in it, and ``solve`` called from the loop.

    Each file begins with its kind and with lengths and places of its sections; all numbers are little-endian, and
    places count from the file's beginning.

    Parameters
    ----------
    ranks
        For each rank the exclusive seconds of main's own line, of the loop's own line, and of ``solve``.
    """
    folder.mkdir(parents=True)
    (folder / "meta.db").write_bytes(_meta_db())
    identities = b"".join(
        struct.pack("<H6x", 3)
        + b"".join(struct.pack("<BxHLQ", kind, 0, number, number) for kind, number in ((1, 7), (2, rank), (3, 0)))
        for rank in range(len(ranks))
    )
    (folder / "profile.db").write_bytes(_database(b"prof", [b"", identities]))
    infos = struct.pack("<QLB3x", 48, _CONTEXTS, 32)
    at = 48 + 32 * _CONTEXTS
    rows, values = b"", b""
    for context in range(_CONTEXTS):
        inclusive = [_inclusive(context, *times) for times in ranks]
        present = [(rank + 1, value) for rank, value in enumerate(inclusive) if value]  # profile 0 is the summary
        rows += struct.pack("<QQHHLQ", len(present), at + len(values) + 10, 1, 0, 0, at + len(values))
        values += struct.pack("<HQ", _INCLUSIVE_ID, 0) + b"".join(struct.pack("<Ld", *pair) for pair in present)
    (folder / "cct.db").write_bytes(_database(b"ctxt", [infos]) + rows + values)
    return folder


_INCLUSIVE_ID = 2
_CONTEXTS = 7
"""The entry, main, its line, its loop, the loop's line, solve, which that line calls, and its line."""


def _inclusive(context: int, line: float, loop: float, solve: float) -> float:
    whole = line + loop + solve
    return (whole, whole, line, loop + solve, loop + solve, solve, solve)[context]


def _database(kind: bytes, sections: Sequence[bytes]) -> bytes:
    at, table = 16 + 16 * len(sections), b""
    for section in sections:
        table += struct.pack("<QQ", len(section), at)
        at += len(section)
    return b"HPCTOOLKIT" + kind + bytes((4, 0)) + table + b"".join(sections)


def _meta_db() -> bytes:
    """Return identities, a metric with its two scopes, and the tree of contexts; other sections are empty."""
    head = 16 + 16 * 8
    kinds = [b"SUMMARY\0", b"NODE\0", b"RANK\0", b"THREAD\0"]
    starts = [head + 16 + 8 * len(kinds) + sum(map(len, kinds[:i])) for i in range(len(kinds))]
    identities = struct.pack("<QB7x", head + 16, len(kinds)) + struct.pack("<4Q", *starts) + b"".join(kinds)
    at = head + len(identities)
    names = b"CPUTIME (sec)\0function\0execution\0"
    text = at + 16 + 32 + 2 * 16 + 2 * 8
    metrics = struct.pack("<QLBBBx", at + 16, 1, 32, 16, 24)
    metrics += struct.pack("<QQQHH4x", text, at + 48, 0, 2, 0)
    metrics += struct.pack("<QH6xQH6x", at + 80, 1, at + 88, _INCLUSIVE_ID)
    metrics += struct.pack("<QQ", text + 14, text + 23) + names
    at += len(metrics)
    texts = b"main\0solve\0a.c\0"
    file, main, solve = at + 16 + len(texts), at + 32 + len(texts), at + 72 + len(texts)
    source = struct.pack("<QQ", 0, at + 16 + 11)
    functions = struct.pack("<QQQQL4x", at + 16, 0, 0, file, 10) + struct.pack("<QQQQL4x", at + 16 + 5, 0, 0, file, 20)
    entries = solve + 40
    contexts, place = b"", entries + 32

    def context(number: int, kind: int, flex: bytes, children: tuple[int, int]) -> bytes:
        return struct.pack("<QQLHBB8x", *children, number, 0, kind, len(flex) // 8) + flex

    def put(*records: bytes) -> tuple[int, int]:
        nonlocal contexts
        start = place + len(contexts)
        contexts += b"".join(records)
        return sum(map(len, records)), start

    def line(number: int, at_line: int, children: tuple[int, int] = (0, 0), kind: int = 2) -> bytes:
        return context(number, kind, struct.pack("<QL4x", file, at_line), children)

    in_solve = put(line(6, 21))
    in_line = put(context(5, 0, struct.pack("<Q", solve), in_solve))
    in_loop = put(line(4, 8, in_line))
    in_main = put(line(2, 6), line(3, 7, in_loop, kind=1))
    roots = put(context(1, 0, struct.pack("<Q", main), in_main))
    entry = struct.pack("<QQLH10x", *roots, 0, 1)
    tree = struct.pack("<QHB5x", entries, 1, 32) + texts + source + functions + entry + contexts
    return _database(b"meta", [b"", identities, metrics, tree, b"", b"", b"", b""])
