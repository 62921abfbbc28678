"""The report as one page: a file of its own that opens without a network, with the numbers inside."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

import buran
from buran.features import sections, sections_of
from buran.instrumentation.measured import MeasuredOverhead
from buran.profiles.profile import SEPARATOR
from buran.reporting.content import Report
from buran.reporting.headline import Headline
from buran.reporting.tables import percent, sentence, tables_of
from buran.reporting.text import answers_of, warnings_of
from buran.wording import named

_TEMPLATES = Path(__file__).parent / "templates"
_NUMBER = re.compile(r"([-+–≤≥] ?)?([\d.]+(e[-+]?\d+)?)?( \S{1,3})?( [\[(].*[\])])?")  # with its unit and interval
_SCRIPTS = (
    "base.js",
    "plots.js",
    "table.js",
    "icicle.js",
    "overview.js",
    "course.js",
    "start.js",
)
_CODE = re.compile("`([^`]+)`")
_LONGEST_NAME = 400
_OF_FEW = ("curves", "measured", "residuals")


def environment(folder: Path = _TEMPLATES) -> jinja2.Environment:
    """Return where templates come from; names of call paths are never markup."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def asset(name: str) -> str:
    """Return a file that pages carry within them."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def table_section(
    name: str,
    title: str,
    words: Sequence[str],
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    at_target: Collection[int] = (),
) -> str:
    """Return a section of the page with sentences and a table; rows `at_target` are marked."""
    numbers = [at for at in range(1, len(header)) if all(_NUMBER.fullmatch(row[at]) for row in rows)]
    return (
        environment()
        .get_template("section.html.j2")
        .render(name=name, title=title, words=words, header=header, rows=rows, at_target=at_target, numbers=numbers)
    )


def render_page(
    report: Report,
    data: Mapping[str, Any],
    provenance: Mapping[str, str],
    no_models: str,
    headline: Headline,
) -> str:
    """Write the page.

    Parameters
    ----------
    data
        From `buran.reporting.page.page_data`.
    provenance
        What was measured where and with what, and how to do it again.
    no_models
        Why there are no models, if there are none.
    headline
        What the page begins with.
    """
    features = [(each, body) for each, value in sections_of(report) if (body := each.page(value, report))]
    first, further = (
        [(each.name, each.title, body) for each, body in features if each.is_first == is_first]
        for is_first in (True, False)
    )
    further += [
        (each.name, each.title, table_section(each.name, each.title, each.sentences, each.header, each.rows))
        for each in tables_of(report)
    ]
    links = [("summary", "Summary"), *(each[:2] for each in first), ("call-paths", "Call paths")]
    links += [
        *(each[:2] for each in further),
        ("course", "How the campaign went"),
        ("provenance", "Where it comes from"),
    ]
    templates = environment()
    templates.filters["prose"] = partial(_prose, names=report.parameters)
    templates.filters["marked"] = _marked
    return templates.get_template("report.html.j2").render(
        report=report,
        data=data,
        json=_json(packed(data)),
        style=asset("report.css")
        + "".join(each.style.read_text(encoding="utf-8") for each in sections() if each.style),
        script="\n".join(
            [*map(asset, _SCRIPTS), *(each.script.read_text(encoding="utf-8") for each in sections() if each.script)]
        ),
        version=buran.__version__,
        links=[(name, title.partition(" (")[0]) for name, title in links],
        answers=answers_of(report, data, headline),
        warnings=warnings_of(report),
        provenance=provenance,
        no_models=no_models,
        named=named,
        percent=percent,
        overhead=lambda measured: "-" if measured is None else str(MeasuredOverhead(**measured)),
        first=[Markup(body) for *_, body in first],
        further=[Markup(body) for *_, body in further],
        at=lambda values: named(dict(zip(data["parameters"], values, strict=True))),
    )


def packed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data with call paths as columns, each region once: a fraction of the size.

    A call path's name is its caller's and that of its region; one without a caller has its whole name. Names longer
    than a page has room for are cut.
    """
    paths = data["paths"]
    regions: dict[tuple[str, str, str], int] = {}
    region = []
    for path in paths:
        name = path["name"]
        if path["parent"] >= 0:
            name = name[len(paths[path["parent"]]["name"]) + len(SEPARATOR) :]
        if len(name) > _LONGEST_NAME:
            name = name[:_LONGEST_NAME] + " …"
        region.append(regions.setdefault((name, path["short"], path["source"]), len(regions)))
    names = [
        key for key in dict.fromkeys(key for path in paths for key in path) if key not in ("name", "short", "source")
    ]
    columns = {key: [path.get(key) for path in paths] for key in names if key not in _OF_FEW}
    few = {str(row): {key: path.get(key) for key in _OF_FEW if key in path} for row, path in enumerate(paths)}
    return {
        **data,
        "paths": {
            "regions": [list(key) for key in regions],
            "region": region,
            **columns,
            "plots": {row: plots for row, plots in few.items() if plots},
        },
    }


def _prose(text: str, names: Sequence[str]) -> Markup:
    """Return a sentence as markup."""
    return _marked(sentence(text, names))


def _marked(text: str) -> Markup:
    """Return text as markup: what stands between backticks is code, nothing else is markup."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def _json(data: Mapping[str, object]) -> str:
    """Return JSON that a script element can hold whatever the names of call paths contain."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
