"""What notebooks show of an object: a small table in HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_ROWS = 20


def table_html(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a title and a table; of many rows the first, and how many there are."""
    taken = [list(map(str, row)) for row in rows]
    lines = [f"<p><strong>{escape(title)}</strong></p>", "<table>", _line("th", header)]
    lines += [_line("td", row) for row in taken[:_ROWS]]
    lines.append("</table>")
    if len(taken) > _ROWS:
        lines.append(f"<p>and {len(taken) - _ROWS} more</p>")
    return "\n".join(lines)


def _line(cell: str, texts: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{cell}>{escape(text)}</{cell}>" for text in texts) + "</tr>"
