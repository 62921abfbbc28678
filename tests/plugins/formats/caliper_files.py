"""Files as Caliper writes them, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

# A file begins with nodes that describe attributes: 8 names one, 10 holds its properties, 1 to 7 are types.
_TYPES = {"double": 5, "int": 2, "string": 4}
_AS_VALUE, _NESTED, _GLOBAL = 65, 276, 1612


def cali(
    path: Path,
    rows: Sequence[tuple[Sequence[str], Mapping[str, object]]],
    metadata: Mapping[str, object],
    units: Mapping[str, str] | None = None,
) -> Path:
    """Write a file as Caliper does."""
    lines = ["__rec=node,id=12,attr=10,data=64,parent=3", "__rec=node,id=14,attr=8,data=attribute.unit,parent=12"]
    number = 20
    known: dict[str, int] = {}

    def node(text: str) -> int:
        nonlocal number
        number += 1
        lines.append(f"__rec=node,id={number},{text}")
        return number

    def attribute(name: str, kind: str, properties: int, unit: str | None = None) -> int:
        if name not in known:
            above = _TYPES[kind]
            if unit:
                above = node(f"attr=14,data={unit},parent={above}")
            described = node(f"attr=10,data={properties},parent={above}")
            known[name] = node(f"attr=8,data={name},parent={described}")
        return known[name]

    region = attribute("region", "string", _NESTED)
    for call_path, values in rows:
        above: int | None = None
        for name in call_path:
            above = node(f"attr={region},data={name}" + ("" if above is None else f",parent={above}"))
        columns = [
            attribute(name, "int" if name == "mpi.rank" else "double", _AS_VALUE, (units or {}).get(name, "sec"))
            for name in values
        ]
        at = "" if above is None else f"ref={above},"
        lines.append(f"__rec=ctx,{at}attr={'='.join(map(str, columns))},data={'='.join(map(str, values.values()))}")
    told = [node(f"attr={attribute(name, 'string', _GLOBAL)},data={value}") for name, value in metadata.items()]
    lines.append(f"__rec=globals,ref={'='.join(map(str, told))}")
    path.write_text("\n".join(lines) + "\n")
    return path
