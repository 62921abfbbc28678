"""An evaluation in plain text."""

from __future__ import annotations

from buran_studies.evaluation.evaluation import Evaluation, Table


def text_of(found: Evaluation) -> str:
    """Return the tables and figures for people."""
    parts = [found.title, *found.notes]
    parts += [_table(table) for table in found.tables]
    if found.figures:
        rows = tuple(
            (figure.name, str(figure), figure.samples, figure.kind.value, figure.goal, figure.note)
            for figure in found.figures
        )
        parts.append(_table(Table("Figures", ("figure", "value", "samples", "", "goal", "note"), rows)))
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    cells = [list(table.header), *([_cell(cell) for cell in row] for row in table.rows)]
    used = [i for i in range(len(table.header)) if any(row[i] for row in cells[1:]) or not table.rows]
    widths = {i: max(len(row[i]) for row in cells) for i in used}
    lines = ["  ".join(row[i].ljust(widths[i]) for i in used).rstrip() for row in cells]
    lines.insert(1, "  ".join("-" * widths[i] for i in used))
    return "\n".join([table.title, *lines, *([table.note] if table.note else [])])


def _cell(value: str | int | float | None) -> str:
    if value is None:
        return "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
