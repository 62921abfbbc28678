"""Whether anything is left to do for the workflow engine: it takes seconds to find that out in a large campaign.

When the engine says that everything is made, what it said that of is written down: the files it owns, with their
times and sizes, and the workflow that made them. As long as all of that is the same, it would say so again.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from buran import assets
from buran.campaign.layout import Layout
from buran.files import digest, file_sha256, read_json, write_json


def remember(layout: Layout, campaign: str) -> None:
    """Write down that the engine has made everything of a campaign that is done."""
    plans = layout.read_plans(campaign)
    if plans and plans[-1].done:
        write_json(layout.finished(campaign), {"state": _state(layout, campaign)})


def is_finished(layout: Layout, campaign: str) -> bool:
    """Tell whether everything is as it was when the engine had made it all."""
    path = layout.finished(campaign)
    return path.is_file() and read_json(path)["state"] == _state(layout, campaign)


def _state(layout: Layout, campaign: str) -> str:
    """Return a digest over the files of the engine and over the workflow."""
    files = [[str(path.relative_to(layout.root)), *_stamp(path)] for path in _made(layout, campaign)]
    tools = [version("buran"), version("snakemake")]
    root = assets.root()
    sources = [root / "Snakefile", *sorted((root / "rules").glob("*.smk")), *sorted((root / "scripts").glob("*.py"))]
    return digest([files, tools, [file_sha256(path) for path in sources]], 32)


def _made(layout: Layout, campaign: str) -> Iterator[Path]:
    """Yield every file that the engine makes for a campaign, whether it is there or not."""
    for plan in layout.read_plans(campaign):
        yield layout.plan(campaign, plan.iteration)
        if plan.iteration:
            yield layout.filter(campaign, plan.iteration)
        if plan.imported:
            yield layout.imports(campaign, plan.iteration)
        if not plan.done:
            for name in (layout.models, layout.findings, layout.table):
                yield name(campaign, plan.iteration)
        yield from (layout.build_pointer(build.hash) for build in plan.builds)
        yield from (layout.bundle_pointer(bundle.id) for bundle in plan.bundles)
    yield from (layout.results(campaign) / name for name in ("report.txt", "report.html", "report.csv", "points.csv"))


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        state = path.stat()
    except FileNotFoundError:
        return ()
    return state.st_mtime_ns, state.st_size
