"""A comparison for continuous integration: a comment in Markdown, and test cases as JUnit's XML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from buran.plugins.versions.condition import Broken
from buran.plugins.versions.difference import Comparison
from buran.plugins.versions.text import (
    SYMBOLS,
    change_in_words,
    growth_in_words,
    metrics_of,
    point_of,
    ranked,
    sentences,
    title_of,
)
from buran.reporting.plain import brief

_ROWS = 10
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def comparison_markdown(comparison: Comparison, broken: Sequence[Broken] = ()) -> str:
    """Return a comment for a pull request: what came true, what changed, and a table of each metric."""
    failed = len({(failure.metric, failure.call_path) for failure in broken})
    verdict = f"{failed} call path{'s' * (failed != 1)} beyond what is allowed" if failed else "no condition came true"
    at = point_of(comparison, comparison.target)
    lines = [f"### Buran: {verdict}", "", f"Compared with {_cell(comparison.before)}, at {at}."]
    lines += ["", *(f"- {_cell(sentence)}" for sentence in sentences(comparison))]
    if broken:
        lines += ["", "| condition | metric | call path |", "| --- | --- | --- |"]
        lines += [f"| {each.condition} | {each.metric} | {_code(each.call_path)} |" for each in broken[:_ROWS]]
    for metric in metrics_of(comparison):
        rows = ranked(comparison, metric)
        if not rows:
            continue
        head = "| | share | call path | change at the target | dominant term |"
        lines += ["", f"**{title_of(metric)}**", "", head, "| --- | --- | --- | --- | --- |"]
        for row in rows[:_ROWS]:
            change, growth = change_in_words(row.target), _cell(growth_in_words(row))
            share = f"{100 * row.share_after:.1f} %"
            lines.append(f"| {SYMBOLS[row.verdict]} | {share} | {_code(row.call_path)} | {change} | {growth} |")
        if len(rows) > _ROWS:
            lines += ["", f"and {len(rows) - _ROWS} more"]
    lines += ["", *(f"Note: {_cell(note)}" for note in comparison.notes)]
    return "\n".join(lines).rstrip() + "\n"


def _cell(text: str) -> str:
    return re.sub(r"([|*_<>`\\])", r"\\\1", " ".join(text.split()))


def _code(call_path: str) -> str:
    return "`" + " ".join(brief(call_path).split()).replace("`", "'").replace("|", "¦") + "`"


def comparison_junit(comparison: Comparison, broken: Sequence[Broken] = ()) -> str:
    """Return a test case for each call path that matters: it fails where a condition came true.

    A call path of which nothing can be decided is skipped.
    """
    reasons: dict[tuple[str, str], list[str]] = {}
    for failure in broken:
        reasons.setdefault((failure.metric, failure.call_path), []).append(failure.condition)
    rows = {(row.metric, row.call_path): row for metric in metrics_of(comparison) for row in ranked(comparison, metric)}
    keys = [*rows, *(key for key in reasons if key not in rows)]
    skipped = sum(key not in reasons and rows[key].verdict == "undecided" for key in keys)
    counts = {"tests": len(keys), "failures": len(reasons), "errors": 0, "skipped": skipped}
    described = {name: str(number) for name, number in counts.items()}
    suite = Element("testsuite", {"name": _xml(f"{comparison.after} compared with {comparison.before}"), **described})
    for metric, call_path in keys:
        case = SubElement(suite, "testcase", {"classname": _xml(metric), "name": _xml(call_path)})
        row = rows.get((metric, call_path))
        said = "" if row is None else f"{change_in_words(row.target)}; {growth_in_words(row)}"
        if (metric, call_path) in reasons:
            message = ", ".join(reasons[metric, call_path])
            SubElement(case, "failure", {"message": _xml(message)}).text = _xml(said)
        elif row is not None and row.verdict == "undecided":
            SubElement(case, "skipped", {"message": "undecided: measure more points"})
        else:
            SubElement(case, "system-out").text = _xml(said)
    indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suite, encoding="unicode") + "\n"


def _xml(text: str) -> str:
    return _NO_XML.sub("?", text)
