"""How long the report's page takes to make, to open and to search, and how large it is.

    python studies/benchmarks/report.py [--call-paths 1000] [--values 5] [--many 100000]

The measurements are made up: a random tree over three parameters with five repetitions. Making the page is CPU time,
without the models; opening it is the time until Chromium, without a window, has loaded it and drawn everything;
searching is the longest time from a letter typed to the rows drawn, and to the last row found, with 100,000 rows.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "reporting"))

import chromium

from buran.profiles.experiment.table import Experiment
from buran.reporting.content import Report
from buran.reporting.html import render_page
from made_up import data_of, experiment, headline_about, many, report

OPENED = "return performance.timing.loadEventEnd - performance.timing.navigationStart"


TYPED = """
  const few = paths.length, field = document.getElementById("search"), times = [], done = arguments[1];
  for (let i = few; i < 100000; i += 1) {
    paths.push({ ...paths[i % few], name: `${paths[i % few].name}->copy_${i}`, parent: -1 });
    texts.push(paths[i].name.toLowerCase());
    children.push([]);
  }
  ranking.key = null;
  field.dispatchEvent(new Event("focus"));
  const type = (text, k) => {
    const start = performance.now();
    field.value = text.slice(0, k);
    field.dispatchEvent(new Event("input"));
    document.body.offsetHeight; // rows have their places
    const answered = performance.now() - start;
    const whole = () => {
      if (looked < ahead.length) return setTimeout(whole);
      times.push([answered, performance.now() - start]);
      k < text.length ? type(text, k + 1) : done([0, 1].map((n) => Math.max(...times.map((time) => time[n]))));
    };
    whole();
  };
  type(arguments[0], 1);
"""


def search_ms(path: Path) -> tuple[float, float] | None:
    """Return times to search 100,000 rows for a text, letter by letter, the longest of the letters, the least of three.

    The first is until the page has drawn rows and answers again, the second until all rows are looked at.
    """
    browser = chromium.started()
    if browser is None:
        return None
    try:
        times = []
        for _ in range(3):
            browser.get(path.as_uri())
            times.append(browser.execute_async_script(TYPED, "kernel_7 copy_99"))
        return min(time for time, _ in times), min(time for _, time in times)
    finally:
        browser.quit()


def make(path: Path, said: Report, table: Experiment) -> float:
    """Write the page; return CPU seconds."""
    start = time.process_time()
    path.write_text(render_page(said, data_of(said, table), {"compiler": "gcc"}, "", headline_about(said)))
    return time.process_time() - start


def opening_times(paths: Sequence[Path]) -> list[float | None]:
    """Seconds until each is loaded, the best of three; None without Chromium and its driver."""
    browser = chromium.started()
    if browser is None:
        return [None] * len(paths)
    found: list[float | None] = []
    try:
        for path in paths:
            times = []
            for _ in range(3):
                browser.get(path.as_uri())
                times.append(browser.execute_script(OPENED) / 1000)
            found.append(min(times))
    finally:
        browser.quit()
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--call-paths", type=int, default=1000)
    parser.add_argument("--values", type=int, default=5, help="of each of the three parameters")
    parser.add_argument("--many", type=int, default=100_000, help="call paths of a page that leaves some out")
    options = parser.parse_args(arguments)
    usual, (table, models) = experiment(options.call_paths, options.values), many(options.many)
    cases = [(usual, report(usual)), (table, report(table, models={"time": models}))]
    print(f"{'call paths':>10}{'points':>8}{'CPU / s':>9}{'MB':>7}{'opens in / s':>14}")
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.html" for number in range(len(cases))]
        cpu_s = [make(path, said, each) for path, (each, said) in zip(paths, cases, strict=True)]
        for (each, _), path, cpu, opened in zip(cases, paths, cpu_s, opening_times(paths), strict=True):
            shown = "no Chromium" if opened is None else f"{opened:.2f}"
            print(f"{len(each.tree):>10}{len(each.points):>8}{cpu:>9.1f}{path.stat().st_size / 1e6:>7.2f}{shown:>14}")
        searched = search_ms(paths[0])
        if searched is not None:
            print(
                "search of 100,000 rows: at most {:.0f} ms a letter, {:.0f} until all are looked at".format(*searched)
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
