"""The report as one page: a file of its own that opens without a network, with the numbers inside."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

import buran
from buran.report.text import Report, warnings_of
from buran.report.words import figures_of, named, percent, summary_of

_TEMPLATES = Path(__file__).parent / "templates"
_SECTIONS = (
    ("summary", "Summary"),
    ("call-paths", "Call paths"),
    ("evaluation", "Predictions tested"),
    ("balance", "Load balance"),
    ("corrections", "Analytical models"),
    ("course", "How the campaign went"),
    ("failures", "Failures"),
    ("provenance", "Where it comes from"),
)


def render_page(
    report: Report, data: Mapping[str, Any], excerpts: Sequence[str], provenance: Mapping[str, str], no_models: str
) -> str:
    """Write the page.

    Parameters
    ----------
    data
        From `buran.report.page.page_data`.
    excerpts
        For each failure the end of its log; empty where there is none.
    provenance
        What was measured where and with what, and how to do it again.
    no_models
        Why there are no models, if there are none.
    """
    absent = {
        "evaluation": not report.evaluation,
        "balance": not report.balance,
        "corrections": not report.corrections,
        "failures": not report.failures,
    }
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            report=report,
            data=data,
            json=_json(data),
            style=asset("report.css"),
            script=asset("report.js"),
            version=buran.__version__,
            sections=[{"id": name, "title": title} for name, title in _SECTIONS if not absent.get(name)],
            figures=figures_of(report, data),
            summary=summary_of(report, data),
            warnings=warnings_of(report),
            excerpts=excerpts,
            provenance=provenance,
            no_models=no_models,
            named=named,
            percent=percent,
            at=lambda values: named(dict(zip(data["parameters"], values, strict=True))),
        )
    )


def environment() -> jinja2.Environment:
    """Return where templates come from; names of call paths are never markup."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def asset(name: str) -> str:
    """Return a file that pages carry within them."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _json(data: Mapping[str, Any]) -> str:
    """Return JSON that a script element can hold whatever the names of call paths contain."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
