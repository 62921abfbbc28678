"""The report's page in a real browser: nothing fails, what a reader does works, and there is something to see."""

from __future__ import annotations

import base64
import csv
import io
import os
import re
import shutil
import zlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import chromium
import pytest

from buran.cli import main
from buran.profiles.profile import CallTree
from buran.reporting.html import render_page
from made_up import NASTY, data_of, experiment, headline_about, many, report
from workbench import Workbench

pytestmark = pytest.mark.slow

MOST_BYTES = 5e6


@pytest.fixture(scope="module")
def browser():
    driver = chromium.started()
    if driver is None:
        pytest.skip("no chromium with its driver: apt install chromium chromium-driver")
    yield driver
    driver.quit()


def write(folder: Path, call_paths: int, values: int, parallel: tuple[str, ...] = ()) -> Path:
    table = experiment(call_paths, values=values, repetitions=3) if call_paths else None
    said = replace(report(table) if table else report(None, evaluation=[]), parallel=parallel)
    data = data_of(said, table)
    path = folder / f"report-{call_paths}.html"
    path.write_text(render_page(said, data, {"compiler": "gcc"}, "no run succeeded", headline_about(said)))
    return path


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    return write(tmp_path_factory.mktemp("small"), 30, 3)


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    return write(tmp_path_factory.mktemp("large"), 1000, 5)


@pytest.fixture(scope="module")
def bundled(tmp_path_factory) -> Path:
    """The page of the bundled example, really measured at four points."""
    folder = tmp_path_factory.mktemp("bundled")
    assert main(["init", "--example", "stencil", str(folder)]) == 0
    bench = Workbench.at(folder)
    del bench.config["constraints"]
    bench.write(
        parameters={"p": {"role": "ranks", "values": [1, 2]}, "n": {"role": "size", "values": [8, 12]}},
        repetitions=1,
        effort_repetitions=1,
        warmup=False,
        evaluation_points=[],
        refinement={"enabled": False},  # small points would leave little to see
    )
    bench.carry_out()
    (page,) = folder.glob("results/*/latest/report.html")
    return page


def opened(browser, path: Path, width: int = 1280):
    browser.set_window_size(width, 1000)
    browser.get(path.as_uri())
    return browser


def complaints(browser) -> list[str]:
    return [each["message"] for each in browser.get_log("browser")]


def rows(browser) -> list[str]:
    script = "return [...document.querySelectorAll('#paths tbody tr')].map(row => row.cells[0].title)"
    return browser.execute_script(script)


def column(browser, index: int) -> list[str]:
    script = f"return [...document.querySelectorAll('#paths tbody tr')].map(row => row.cells[{index}].textContent)"
    return browser.execute_script(script)


@pytest.fixture(scope="module")
def huge(tmp_path_factory) -> Path:
    table, models = many(100_000)
    said = report(table, models={"time": models})
    path = tmp_path_factory.mktemp("huge") / "report.html"
    path.write_text(render_page(said, data_of(said, table), {"compiler": "gcc"}, "", headline_about(said)))
    return path


@pytest.mark.thorough
def test_a_hundred_thousand_call_paths(browser, huge):
    assert huge.stat().st_size < MOST_BYTES
    opened(browser, huge)
    text = browser.execute_script("return document.querySelector('.left-out').innerText")
    kept = browser.execute_script("return paths.length")
    assert 2000 <= kept <= 3000 and text.startswith(f"{100_000 - kept} ")
    assert "report.csv" in text
    assert rows(browser) and complaints(browser) == []


@pytest.mark.parametrize("which", ["small", pytest.param("large", marks=pytest.mark.thorough)])
def test_it_opens_without_a_complaint(browser, which, request):
    path = request.getfixturevalue(which)
    assert path.stat().st_size < MOST_BYTES
    opened(browser, path)
    assert rows(browser) and complaints(browser) == []
    assert "made up & <b>bold</b>" in browser.title


def test_a_page_moved_elsewhere_needs_neither_its_folder_nor_scripts(browser, small, tmp_path):
    moved = tmp_path / "else where" / "größe.html"
    moved.parent.mkdir()
    shutil.copy(small, moved)
    opened(browser, moved)
    known = rows(browser)
    assert known and complaints(browser) == []
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        opened(browser, moved)
        text = browser.find_element("tag name", "body").text
        answers = [each.text for each in browser.find_elements("css selector", ".said")]
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert len(answers) >= 4 and all(answers) and complaints(browser) == []
    assert "needs JavaScript" in text and "Where it comes from" in text


def test_names_stay_names(browser, small):
    opened(browser, small)
    assert any(NASTY in name for name in rows(browser))
    browser.execute_script("show(paths.findIndex((path) => path.name.includes('alert')))")
    title = browser.execute_script("return document.querySelector('#detail h3').textContent")
    assert NASTY in title
    shown = "return [...document.querySelectorAll('title, [title]')].map((each) => each.title || each.textContent)"
    assert any(NASTY in each for each in browser.execute_script(shown))
    for where in ("#paths", "#detail", "#overview"):
        assert browser.execute_script(f"return document.querySelectorAll('{where} script').length") == 0
    assert browser.execute_script("return document.scripts.length") == 2 and complaints(browser) == []


def test_the_parts_of_the_time_are_drawn(browser, small):
    opened(browser, small)
    count = "return document.querySelectorAll('{}').length"
    assert browser.execute_script(count.format("#overview path[class^=kind]")) == 7
    assert browser.execute_script(count.format("#overview .legend li")) == 7
    browser.execute_script("document.querySelector('#overview button[data-parameter=\"1\"]').click()")
    assert "over n" in browser.execute_script(
        "return document.querySelector('#overview svg').getAttribute('aria-label')"
    )
    shapes = browser.execute_script("return [...document.querySelectorAll('path')].map(p => p.getAttribute('d'))")
    assert not any("NaN" in shape or "undefined" in shape for shape in shapes) and complaints(browser) == []


def test_speed_up_is_drawn_with_the_ideal_line(browser, tmp_path):
    opened(browser, write(tmp_path, 30, 3, parallel=("p",)))
    known = "(path) => path.curves && path.at > 0 && path.curves[1][0][0][0] > 0"
    row = browser.execute_script(f"return paths.findIndex({known})")
    browser.execute_script(f"show({row})")
    lines = browser.execute_script(
        "return [...document.querySelectorAll('#detail svg[aria-label^=\"speed-up over p\"]')].map((drawing) =>"
        " ['.curve', '.ideal'].map((kind) => drawing.querySelector(kind).getAttribute('d').slice(1).split('L')"
        ".map((at) => at.split(',').map(Number))))"
    )
    assert lines
    for modelled, ideal in lines:
        assert modelled[0] == ideal[0]  # 1 on the fewest ranks
        assert all(here[1] > there[1] for here, there in pairwise(ideal))  # upwards
    first, at, fewest, target = browser.execute_script(
        f"return [paths[{row}].curves[1][0][0][0], paths[{row}].at, data.axes[0][0], data.target[0]]"
    )
    said = browser.execute_script(
        "const last = [...document.querySelectorAll('#detail svg[aria-label^=\"speed-up over p\"]')].pop();"
        "return [last.querySelector('.goal title').textContent,"
        " [...last.querySelectorAll('text')].map((each) => each.textContent)]"
    )
    assert float(re.search(r": ([\d.e+-]+)", said[0])[1]) == pytest.approx(first / at, rel=0.01)
    assert f"{target:g}" in said[1] and f"{fewest:g}" in said[1]
    assert complaints(browser) == []


def test_the_table_and_the_tree_show_another_metric(browser, tmp_path):
    table = experiment(30, values=3, repetitions=3)
    table = replace(
        table, values={**table.values, "visits": table.values["time"][::-1]}, units={"time": "sec", "visits": ""}
    )
    said = report(table)
    data = data_of(said, table)
    path = tmp_path / "report.html"
    path.write_text(render_page(said, data, {"compiler": "gcc"}, "", headline_about(said)))
    opened(browser, path)
    before = column(browser, 4)
    assert browser.execute_script("return [...document.getElementById('metric').options].map(each => each.value)") == [
        "time",
        "visits",
    ]
    choose = (
        "const chooser = document.getElementById('metric'); chooser.value = arguments[0];"
        "chooser.dispatchEvent(new Event('change'));"
    )
    browser.execute_script(choose, "visits")
    assert browser.execute_script("return document.getElementById('shown-metric').textContent") == "visits"
    assert browser.execute_script("return document.querySelectorAll('#icicle figure').length") == 1
    shown = dict(zip(rows(browser), column(browser, 4), strict=True))
    values = {each["name"]: value for each, value in zip(data["paths"], data["metrics"]["visits"]["at"], strict=True)}
    for name, text in shown.items():
        assert float(text) == pytest.approx(values[name], rel=6e-3)
    shares = [float(text.removesuffix(" %")) for text in column(browser, 2)]
    assert sum(shares) == pytest.approx(100, abs=2)
    assert set(column(browser, 5)) == {"–"}  # intervals are of the first metric
    browser.execute_script(choose, "time")
    assert column(browser, 4) == before and not complaints(browser)


def page_of(said, table, folder: Path) -> Path:
    path = folder / "report.html"
    text = render_page(said, data_of(said, table), {"compiler": "gcc"}, "", headline_about(said))
    path.write_text(text)
    return path


def test_source_lines_are_shown_and_linked(browser, tmp_path):
    table = experiment(30, values=3, repetitions=3)
    said = report(table)
    tree = table.tree
    of = {"main": ("/home/x/a b.c", 7), "kernel_1(int)": ("src/k.cpp", 12), "kernel_2(int)": ("MPI", 0)}
    regions = tuple(
        replace(region, file=of.get(region.name, ("", 0))[0], line=of.get(region.name, ("", 0))[1])
        for region in tree.regions
    )
    table = replace(table, tree=CallTree(regions, tree.region, tree.parent))
    opened(browser, page_of(said, table, tmp_path))
    script = """
      show(paths.findIndex((path) => path.own === arguments[0]));
      const link = document.querySelector('#detail a');
      return [document.querySelector('#detail dl').textContent, link && link.getAttribute('href')];
    """
    text, link = browser.execute_script(script, "main")
    assert "/home/x/a b.c:7" in text and link == "vscode://file/home/x/a%20b.c:7"
    text, link = browser.execute_script(script, "kernel_1(int)")
    assert "src/k.cpp:12" in text and link is None
    for name in ("kernel_2(int)", "kernel_3(int)"):
        assert "source" not in browser.execute_script(script, name)[0]
    assert complaints(browser) == []


def test_long_names_are_short_in_table_and_tree(browser, tmp_path):
    table = experiment(3, values=3, repetitions=2)
    tree = table.tree
    long = "ns::solve<std::vector<double, std::allocator<double> >, 3>(std::vector<double> const&, int)"
    regions = tuple(replace(region, name=long) if region.name == "kernel_1(int)" else region for region in tree.regions)
    table = replace(table, tree=CallTree(regions, tree.region, tree.parent))
    opened(browser, page_of(report(table), table, tmp_path))
    full = f"main->{long}"
    assert full in rows(browser)
    cell = "return [...document.querySelectorAll('#paths td')].find((each) => each.title === arguments[0]).textContent"
    assert browser.execute_script(cell, full).endswith("ns::solve")
    browser.find_element("css selector", "#paths th[data-key=at]").click()  # a list, with callers
    assert browser.execute_script(cell, full) == "main->ns::solve"


def test_call_paths_are_compared_in_one_plot(browser, small):
    opened(browser, small)
    count = "return document.querySelectorAll('#detail .compared').length"
    press = "document.querySelector('#detail .pin').click()"
    first, second = browser.execute_script(
        "return paths.map((path, i) => [path.curves ? path.share : -1, i]).sort((a, b) => b[0] - a[0])"
        ".slice(0, 2).map(each => each[1])"
    )
    browser.execute_script("show(arguments[0])", first)
    browser.execute_script(press)
    assert browser.execute_script(count) == 0, "not with itself"
    browser.execute_script("show(arguments[0])", second)
    assert browser.execute_script(count) > 0
    named = "return document.querySelector('#detail .compared title').textContent"
    assert browser.execute_script(named) == browser.execute_script("return paths[arguments[0]].name", first)
    browser.execute_script("show(arguments[0])", first)
    browser.execute_script(press)
    browser.execute_script("show(arguments[0])", second)
    assert browser.execute_script(count) == 0 and not complaints(browser)


def test_paper_shows_what_is_folded_and_the_largest_call_paths(browser, small):
    opened(browser, small)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert len(browser.execute_script("return [...document.querySelectorAll('#printed section')]")) == 5
    assert browser.execute_script("return document.querySelectorAll('details:not([open])').length") == 0
    assert browser.execute_script("return getComputedStyle(document.querySelector('nav')).display") == "none"
    browser.set_window_size(760, 1000)  # about A4
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    browser.execute_script("window.dispatchEvent(new Event('afterprint'))")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert browser.execute_script("return document.querySelectorAll('#printed section, details[open]').length") == 0
    assert complaints(browser) == []


def test_search_finds_and_forgets(browser, small):
    from selenium.webdriver.common.by import By

    opened(browser, small)
    every = rows(browser)
    field = browser.find_element(By.ID, "search")
    field.send_keys("kernel_7(")
    found = rows(browser)
    assert found and all("kernel_7(" in name for name in found) and len(found) < len(every)
    field.clear()
    field.send_keys("no such call path")
    assert rows(browser) == []
    browser.find_element(By.ID, "tree").click()
    assert rows(browser) == every and complaints(browser) == []


def test_columns_sort_both_ways(browser, small):
    from selenium.webdriver.common.by import By

    opened(browser, small)
    head = browser.find_element(By.CSS_SELECTOR, "#paths th[data-key=at]")
    head.click()
    numbers = [float(each) for each in column(browser, 4) if each != "–"]
    assert numbers == sorted(numbers, reverse=True) and head.get_attribute("aria-sort") == "descending"
    head.click()
    numbers = [float(each) for each in column(browser, 4) if each != "–"]
    assert numbers == sorted(numbers)
    browser.find_element(By.CSS_SELECTOR, "#paths th[data-key=name]").click()
    assert rows(browser) == sorted(rows(browser))


def press(browser, *keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(browser).send_keys(*keys).perform()


def test_the_keyboard_opens_closes_and_sorts(browser, small):
    from selenium.webdriver.common.keys import Keys

    opened(browser, small)
    browser.execute_script("document.querySelector('#paths tbody tr').focus()")
    press(browser, Keys.ARROW_DOWN, Keys.ENTER)
    second = browser.execute_script("return document.querySelector('#paths tbody tr.chosen').cells[0].title")
    assert second == rows(browser)[1]
    assert browser.execute_script("return decodeURIComponent(location.hash)") == f"#path={second}"
    press(browser, Keys.ESCAPE)
    assert browser.execute_script("return document.getElementById('detail').hidden && location.hash === ''")
    press(browser, Keys.ARROW_UP, Keys.ARROW_LEFT)
    assert rows(browser) == ["main"]
    press(browser, Keys.ARROW_RIGHT)
    assert second in rows(browser)
    browser.execute_script("document.querySelector('#paths th[data-key=at] button').focus()")
    press(browser, Keys.ENTER)
    sort = "return document.querySelector('#paths th[data-key=at]').getAttribute('aria-sort')"
    assert browser.execute_script(sort) == "descending" and complaints(browser) == []


def test_a_link_opens_a_call_path(browser, small):
    opened(browser, small)
    deepest = browser.execute_script("return paths.map(p => p.name).sort((a, b) => b.length - a.length)[0]")
    browser.execute_script("document.getElementById('fold').click()")
    browser.execute_script("location.hash = '#path=' + encodeURIComponent(arguments[0])", deepest)
    browser.execute_script("followLink()")
    assert deepest in rows(browser)
    assert browser.execute_script("return document.querySelector('#detail h3').textContent") == deepest
    assert complaints(browser) == []


def test_inclusive_shares_contain_what_is_called(browser, small):
    opened(browser, small)
    assert browser.execute_script("return Math.abs(paths[0].inclusive - 1)") < 0.01
    script = (
        "return paths.every((p, i) => p.inclusive + 1e-9 >= children[i].reduce((s, c) => s + paths[c].inclusive, 0))"
    )
    assert browser.execute_script(script)
    boxes = browser.execute_script("return document.querySelectorAll('#icicle .box').length")
    assert 1 < boxes <= 30
    whole, part = browser.execute_script(
        "return [...document.querySelectorAll('#icicle .callees')].slice(0, 2).map(b => +b.getAttribute('width'))"
    )
    assert part <= whole
    assert "exclusive" in browser.execute_script("return document.querySelector('#icicle title').textContent")


@pytest.mark.thorough
def test_small_call_paths_are_folded_away(browser, large):
    from selenium.webdriver.common.by import By

    opened(browser, large)
    few = browser.execute_script("return shown.length")
    assert few < 1000 and "below 0.1 %" in browser.find_element(By.ID, "count").text
    browser.find_element(By.ID, "small").click()
    browser.find_element(By.ID, "unfold").click()
    assert browser.execute_script("return shown.length") == 1000


def test_tables_and_drawings_are_saved(browser, small):
    opened(browser, small)
    browser.execute_script("saved = []; save = (name, type, text) => saved.push([name, type, text])")
    browser.execute_script("document.getElementById('csv').click(); document.querySelector('#icicle .save').click()")
    (table, _, text), (drawing, kind, picture) = browser.execute_script("return saved")
    assert table.endswith(".csv") and drawing.endswith(".svg") and kind == "image/svg+xml"
    lines = list(csv.DictReader(io.StringIO(text)))
    assert [line["name"] for line in lines] == rows(browser) and float(lines[0]["at"]) >= 0
    root = ElementTree.fromstring(picture)
    assert root.tag == "{http://www.w3.org/2000/svg}svg" and "fill: rgb" in picture


def test_the_summary_is_one_page_on_paper(browser, small):
    opened(browser, small)
    browser.execute_script("document.body.classList.add('one-page')")
    printed = browser.execute_cdp_cmd(
        "Page.printToPDF", {"printBackground": True, "paperWidth": 8.27, "paperHeight": 11.69}
    )
    assert len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed["data"]))) == 1


def test_a_hundred_thousand_rows_are_searched_while_typing(browser, small):
    """A row is made when it comes into sight; a search reads texts that are ready, some at a time."""
    opened(browser, small)
    script = """
      const few = paths.length;
      for (let i = few; i < 100000; i += 1) {
        paths.push({ ...paths[i % few], name: `${paths[i % few].name}->copy_${i}`, parent: -1 });
        texts.push(paths[i].name.toLowerCase());
        children.push([]);
      }
      ranking.key = null;
      search("k");
      search("copy_99");
      const first = [looked, body.children.length, document.getElementById("count").textContent], done = arguments[0];
      const last = () => [shown.length, body.children.length];
      const whole = () => looked < ahead.length ? setTimeout(whole) : done([...first, ...last()]);
      whole();
    """
    looked, few, said, matches, made = browser.execute_async_script(script)
    assert looked < 100_000 and said.startswith("at least ") and few <= 30  # the page answers before it has seen all
    assert matches == 1 + 10 + 100 + 1000 and few <= made <= 200 and complaints(browser) == []
    assert not browser.find_element("id", "count").text.startswith("at least")


@pytest.mark.skipif("AXE" not in os.environ, reason="AXE names no axe.min.js (npm pack axe-core)")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 420])
@pytest.mark.parametrize("which", ["small", pytest.param("bundled", marks=[pytest.mark.mpi, pytest.mark.thorough])])
def test_axe_finds_nothing(browser, which, scheme, width, request):
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    opened(browser, request.getfixturevalue(which), width)
    if which == "bundled":
        assert browser.execute_script("return document.querySelector('#course table') !== null")
    browser.execute_script(Path(os.environ["AXE"]).read_text())
    browser.execute_script("show(0)")
    run = "const done = arguments[0]; axe.run().then((found) => done(found.violations.map((each) => each.id)))"
    assert browser.execute_async_script(run) == []
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_folding_hides_what_is_below(browser, small):
    from selenium.webdriver.common.by import By

    opened(browser, small)
    every = rows(browser)
    browser.find_element(By.ID, "fold").click()
    assert rows(browser) == [name for name in every if "->" not in name]
    browser.find_element(By.ID, "unfold").click()
    assert sorted(rows(browser)) == sorted(every)


def test_a_call_path_shows_its_plots(browser, small):
    from selenium.webdriver.common.by import By

    opened(browser, small)
    browser.find_element(By.CSS_SELECTOR, "#paths tbody tr").click()
    detail = browser.find_element(By.ID, "detail")
    assert detail.is_displayed() and "main" in detail.text
    assert (
        len(detail.find_elements(By.CSS_SELECTOR, "svg path.curve")) == 6
    )  # through what was measured, and the target
    assert len(detail.find_elements(By.CSS_SELECTOR, "svg circle.point")) == 9
    assert len(detail.find_elements(By.CSS_SELECTOR, "svg circle.residual")) == 27
    shapes = browser.execute_script(
        "return [...document.querySelectorAll('#detail path')].map(p => p.getAttribute('d'))"
    )
    assert not any("NaN" in shape or "undefined" in shape for shape in shapes)
    labels = "return [...document.querySelectorAll('#detail svg text')].map(text => text.textContent)"
    assert "simulated machine" not in browser.execute_script(labels)
    browser.execute_script("data.simulated = true; document.querySelector('#paths tbody tr:nth-child(2)').click()")
    drawings = len(detail.find_elements(By.CSS_SELECTOR, "svg"))
    assert browser.execute_script(labels).count("simulated machine") == drawings > 3
    assert complaints(browser) == []


def test_measured_points_and_the_target_have_axes_of_their_own(browser, small):
    """A diamond far above the points would leave nothing to see of these."""
    opened(browser, small)
    script = """
      const [first, second] = cuts(paths[0].curves, measuredOf(paths[0]), 0, "time", [1e6, 1e5, 1e7]);
      const all = ["circle.point", "path.goal", "line.target"];
      const marks = (figure) => all.map((each) => figure.querySelectorAll(each).length);
      return [marks(first), marks(second), first.textContent, second.textContent];
    """
    measured, target, said_first, said_second = browser.execute_script(script)
    assert measured == [3, 0, 0] and "at n=3000, k=30" in said_first
    assert target == [0, 1, 1] and "at n=8000, k=80" in said_second
    same = "data.cuts[0] = data.target; return cuts(paths[0].curves, measuredOf(paths[0]), 0, 'time', [1, 0, 2]).length"
    assert browser.execute_script(same) == 1 and complaints(browser) == []


@pytest.mark.mpi
def test_the_bundled_example(browser, bundled):
    opened(browser, bundled)
    names = rows(browser)
    assert any("solve_cg" in name for name in names) and browser.title.startswith("stencil")
    browser.execute_script("document.querySelector('#paths tbody tr').click()")
    assert len(browser.execute_script("return [...document.querySelectorAll('#detail circle.point')]")) > 0
    assert complaints(browser) == []


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize(
    "which", ["small", *(pytest.param(each, marks=pytest.mark.thorough) for each in ("large", "bundled"))]
)
def test_there_is_something_to_see(browser, which, width, request):
    opened(browser, request.getfixturevalue(which), width)
    picture = browser.get_screenshot_as_png()
    assert distinct_rows(picture) > 100
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")


def test_an_empty_page_would_be_noticed(browser):
    browser.get("about:blank")
    assert distinct_rows(browser.get_screenshot_as_png()) < 10


def test_without_models_it_says_so(browser, tmp_path):
    opened(browser, write(tmp_path, 0, 0))
    text = browser.execute_script("return document.body.innerText")
    assert "no run succeeded" in text and complaints(browser) == []


def distinct_rows(png: bytes) -> int:
    """Lines of a picture that differ from the one above: an empty page has none."""
    width = int.from_bytes(png[16:20], "big")
    at, packed = 8, b""
    while at < len(png):
        size = int.from_bytes(png[at : at + 4], "big")
        if png[at + 4 : at + 8] == b"IDAT":
            packed += png[at + 8 : at + 8 + size]
        at += 12 + size
    raw = zlib.decompress(packed)
    stride = len(raw) // int.from_bytes(png[20:24], "big")
    assert stride in (1 + 3 * width, 1 + 4 * width)
    lines = [raw[start : start + stride] for start in range(0, len(raw), stride)]
    return sum(any(line[1:]) for line in lines)
