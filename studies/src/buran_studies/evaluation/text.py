"""An evaluation in plain text."""

from __future__ import annotations

from buran_studies.evaluation.evaluation import Beside, Evaluation, Table, Verdict


def text_of(found: Evaluation) -> str:
    """Return the tables and figures for people."""
    parts = [found.title, *found.notes]
    if found.beside:
        parts.append(_beside(found))
    parts += [_table(table) for table in found.tables]
    if found.figures:
        rows = tuple(
            (figure.name, str(figure), figure.samples, figure.kind.value, figure.goal, figure.note)
            for figure in found.figures
        )
        parts.append(_table(Table("Figures", ("figure", "value", "samples", "", "goal", "note"), rows)))
    return "\n\n".join(parts) + "\n"


def _beside(found: Evaluation) -> str:
    rows = tuple((row.element, row.published, here(row), row.unit, row.samples, judged(row)) for row in found.beside)
    header = ("element", "published", "here", "unit", "samples", "verdict")
    modeller = f"modeller: {found.modeller}; " if found.modeller else ""
    return _table(Table("Beside the paper", header, rows, f"{modeller}{found.cpu_s:.0f} s of CPU time"))


def here(row: Beside) -> str:
    """Return our number with its standard error."""
    if row.here is None:
        return "none"
    return _cell(row.here) + ("" if row.standard_error is None else f" ± {row.standard_error:.2g}")


def judged(row: Beside) -> str:
    """Return the verdict on our number: what it differs by, and why."""
    if row.verdict is Verdict.REPRODUCED:
        return row.verdict.value
    if row.verdict is Verdict.DIFFERS:
        return f"differs by {deviation(row)}: {row.why or 'reason not known'}"
    return f"{row.verdict.value}: {row.why}" if row.why else row.verdict.value


def deviation(row: Beside) -> str:
    """Return how far ours is from the published number: in points for percentages, else in percent of it."""
    if row.published is None or row.here is None:
        return ""
    if row.unit == "%":
        return f"{row.here - row.published:+.1f} points"
    return f"{100 * (row.here / row.published - 1):+.1f} %" if row.published else f"{row.here:+.3g}"


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
