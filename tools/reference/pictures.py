"""The pictures of the pages, from a finished campaign: ``python tools/reference/pictures.py CAMPAIGN.yaml``.

Pages of the report are taken by Chromium without a window, the first screen also for each width and colour scheme;
terminals are drawn as SVG from what the commands print.
A folder of results, as in ``python tools/reference/pictures.py results/NAME [all]``, gives the gallery its picture of
that program: the answers of the report, or `all`: also the window for each width and colour scheme.
"""

from __future__ import annotations

import base64
import io
import re
import subprocess
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from PIL import Image

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "reporting"))

import chromium  # type: ignore[import-not-found]  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
WIDTH = 1200
COLUMNS, LINES = 96, 26
GALLERY_WIDTH, GALLERY_HEIGHT = 1400, 800
WINDOWS = {(width, scheme): 700 if width > 1000 else 800 for width in (1400, 420) for scheme in ("light", "dark")}
COLOURS = 48  # of a picture of the gallery: text, its edges, and few others
LARGEST = "show(paths.map((_, i) => i).sort((a, b) => paths[b].share - paths[a].share)[0])"
OPEN_WHOLE = "document.getElementById('detail').style.maxHeight = 'none'; "

# By file: what is done before the picture is taken, the element that is shown (the window without one), its height.
PAGES = {
    "report.png": ("", "", 900),
    "report-call-tree.png": ("", "#call-paths", 760),
    "report-call-path.png": (OPEN_WHOLE + LARGEST, "#detail", 1000),
    "report-efficiency.png": ("", "#efficiency", 420),
}
# By file: the words behind `buran`, the campaign file's place in them as {}.
TERMINALS = {
    "terminal-report.svg": "report {}",
    "terminal-check.svg": "check {}",
    "terminal-plan.svg": "plan {}",
    "terminal-status.svg": "status {}",
    "terminal-filter.svg": "filter {}",
}


def terminal(command: str, text: str) -> str:
    """Return what a terminal shows as SVG; long lines and long outputs are cut."""
    lines = [f"$ {command}", *text.rstrip().splitlines()]
    shown = [line if len(line) <= COLUMNS else line[: COLUMNS - 1] + "…" for line in lines[:LINES]]
    shown += ["…"] if len(lines) > LINES else []
    width, height = 8 * COLUMNS + 32, 18 * len(shown) + 28
    rows = "".join(
        f'<text x="16" y="{30 + 18 * place}" xml:space="preserve">{escape(line)}</text>\n'
        for place, line in enumerate(shown)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="13" fill="#e4e7eb">\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="#14171b"/>\n{rows}</svg>\n'
    )


def said(campaign: Path, words: str) -> str:
    """Return what a command prints about a campaign, from its folder."""
    command = [sys.executable, "-m", "buran.cli", *words.format(campaign.name).split()]
    done = subprocess.run(command, cwd=campaign.parent, capture_output=True, text=True, check=False)
    return done.stdout


def shown_paths(campaign: Path, words: str) -> str:
    """Return the same without the folders of this machine."""
    return said(campaign, words).replace(str(campaign.parents[1]), "~").replace(str(campaign.parent), "~")


def without_this_machine(page: Path) -> Path:
    """Return a copy of a page in which the campaign lies in the reader's home folder."""
    copy = page.with_name("pictured.html")
    copy.write_text(re.sub(r'(?<=")/[^"]*(?=/results/)', "~/demo", page.read_text()))
    return copy


def photograph(browser: Any, page: Path, before: str, element: str, height: int, width: int = WIDTH) -> bytes:
    """Return a picture of a page, or of one of its elements, as PNG."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get("about:blank")
    browser.get(page.as_uri())
    browser.execute_script(before)
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    if element:
        box = "const box = document.querySelector(arguments[0]).getBoundingClientRect(); "
        x, y, wide, tall = browser.execute_script(
            box + "return [box.x + scrollX, box.y + scrollY, box.width, box.height]", element
        )
        clip |= {"x": x - 8, "y": y - 8, "width": wide + 16, "height": min(tall + 16, height)}
    options = {"format": "png", "clip": clip, "captureBeyondViewport": True}
    return base64.b64decode(browser.execute_cdp_cmd("Page.captureScreenshot", options)["data"])


def gallery(browser: Any, results: Path, *, windows: bool) -> None:
    """Write the gallery's picture of a campaign; also of the window."""
    page, name = results / "latest" / "report.html", f"gallery-{results.name.lower()}"
    write_small(f"{name}.png", photograph(browser, page, "", "header", GALLERY_HEIGHT, GALLERY_WIDTH))
    if windows:
        in_windows(browser, page, name)


def in_windows(browser: Any, page: Path, name: str) -> None:
    """Write pictures of what a window shows first, in each width and colour scheme."""
    for (width, scheme), height in WINDOWS.items():
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        write_small(f"{name}-{width}-{scheme}.png", photograph(browser, page, "", "", height, width))


def write_small(name: str, png: bytes) -> None:
    """Write a picture with few colours."""
    picture = Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(PICTURES / name, optimize=True)


def main(arguments: Sequence[str]) -> int:
    """Write the pictures."""
    campaign = Path(arguments[0]).resolve()
    if not campaign.is_dir():
        for name, words in TERMINALS.items():
            (PICTURES / name).write_text(terminal(f"buran {words.format(campaign.name)}", shown_paths(campaign, words)))
    browser = chromium.started()
    if browser is None:
        print("no chromium with its driver: no picture of a page was taken", file=sys.stderr)
        return 1
    try:
        if campaign.is_dir():
            gallery(browser, campaign, windows="all" in arguments[1:])
            return 0
        page = without_this_machine(Path(said(campaign, "report {} --html").strip()))
        for name, (before, element, height) in PAGES.items():
            (PICTURES / name).write_bytes(photograph(browser, page, before, element, height))
        in_windows(browser, page, "report")
    finally:
        browser.quit()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
