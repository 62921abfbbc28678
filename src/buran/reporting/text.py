"""The report as plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from buran.features import sections_of
from buran.reporting.content import Answer, Report
from buran.reporting.plain import section
from buran.reporting.sections import ROWS, Table, call_path_tables, tables_of
from buran.reporting.words import warnings_of

_WIDTH, _LINES = 80, 23  # of a terminal; a line is left for what the shell says next


def first_screen(report: Report, answers: Sequence[Answer]) -> str:
    """Write the answers alone, on one screen of a terminal; of the longest one the last facts are left out."""
    head = [*_head(report), ""]
    blocks = [[_wrapped(line, "  " if position else "") for position, line in enumerate(_answer(a))] for a in answers]
    while len(head) + sum(len(lines) for block in blocks for lines in block) > _LINES:
        longest = max(reversed(blocks), key=lambda block: sum(map(len, block)))
        if len(longest) == 1:
            break
        longest.pop()
    return "\n".join([*head, *(line for block in blocks for lines in block for line in lines)]) + "\n"


def _head(report: Report) -> list[str]:
    ended = f"{report.points[0]} of {report.points[1]} points measured: {report.summary.reason}."
    on = _wrapped(report.machine) if report.machine else []
    return [f"Buran report: {report.summary.campaign}", *_wrapped(ended), *on]


def _wrapped(line: str, indent: str = "") -> list[str]:
    return textwrap.wrap(line.strip(), _WIDTH, initial_indent=indent, subsequent_indent=2 * indent) or [""]


def render(report: Report, answers: Sequence[Answer] = ()) -> str:
    """Write the report; `answers` are to what a reader wants to know first."""
    features = sections_of(report)
    width = max(map(len, report.results))
    parts = [
        "\n".join(_head(report)),
        "\n".join(line for answer in answers for line in _answer(answer)),
        "\n".join(f"Note: {note}" for note in warnings_of(report)),
        *(each.text(value, report) for each, value in features if each.is_first),
        *map(_table, call_path_tables(report)),
        *(each.text(value, report) for each, value in features if not each.is_first),
        *map(_table, tables_of(report)),
        _listed("Next steps", [f"- {step}" for step in report.next_steps]),
        _listed("Where the results lie", [f"{name:<{width}}  {file}" for name, file in report.results.items()]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _answer(answer: Answer) -> list[str]:
    return [f"{answer.question} {answer.answer}", *(f"  {fact}" for fact in answer.facts)]


def _table(table: Table) -> str:
    if not table.rows:
        return _listed(table.title, table.sentences)
    shown = table.rows[:ROWS] if table.is_long else table.rows
    left = len(table.rows) - len(shown)
    further = [f"and {left} more, on the page"] if left else []
    return "\n\n".join([section(table.title, table.header, shown), *further, *table.sentences])


def _listed(title: str, lines: Sequence[str]) -> str:
    return "\n".join([title, "-" * len(title), *lines])
