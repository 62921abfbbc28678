"""The documentation as pages, and as Markdown that the forge shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from snippets import PAGES, ROOT, blocks_of, name_of

import command_line as reference
from buran.errors import Exit

DOCS = ROOT / "docs"
INDEXES = sorted(DOCS.glob("*/index.md"))


@pytest.mark.thorough
def test_pages_build_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", "-d", str(tmp_path / "trees")]
    done = subprocess.run([*command, str(DOCS), str(tmp_path / "pages")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    built = tmp_path / "pages"
    assert {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")} <= {
        path.relative_to(built) for path in built.rglob("*.html")
    }
    api = (built / "reference" / "api.html").read_text()
    for name in (
        "modeling.fit.fit_models",
        "modeling.tensor.CPRegressor",
        "profiles.experiment.read.read_experiment",
    ):
        assert f'id="buran.{name}"' in api


@pytest.mark.parametrize("index", INDEXES, ids=name_of)
def test_index_pages_name_every_page(index: Path) -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)", index.read_text()))
    there = {path.name for path in index.parent.glob("*.md")} - {"index.md"}
    assert there == linked, f"{name_of(index)}: not named: {there - linked}; not there: {linked - there}"


def test_there_is_an_index_page_in_each_folder() -> None:
    assert {path.parent for path in INDEXES} == {path.parent for path in DOCS.glob("*/*.md")}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    """On the forge; the generator checks those between its own pages again."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{name_of(page)}: {target}"
        assert not anchor or anchor in anchors(file), f"{name_of(page)}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_of_the_repository_that_a_page_names_are_there(page: Path) -> None:
    named = re.findall(
        r"(?<![\w/.~-])((?:src|tests|studies|tools|docs|scripts|rules|profiles)/[\w./-]*\w/?)", page.read_text()
    )
    missing = [name for name in named if not (ROOT / name).exists() and not (page.parent / name).exists()]
    assert not missing


def test_the_tutorial_lists_the_bundled_program() -> None:
    files = {block.said.get("file"): block.text for block in blocks_of(DOCS / "tutorial" / "your-own-program.md")}
    assert files["program/bodies.c"] == (ROOT / "examples" / "bodies" / "bodies.c").read_text()


def anchors(page: Path) -> set[str]:
    """Names that headings have on the forge."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_page_of_the_command_line_is_current() -> None:
    assert (ROOT / reference.PATH).read_text() == reference.reference_text(), "python tools/reference/command_line.py"


def test_the_page_of_the_command_line_is_written(tmp_path: Path) -> None:
    reference.main([str(tmp_path)])
    assert (tmp_path / reference.PATH).read_text() == reference.reference_text()


def test_every_exit_code_has_a_meaning() -> None:
    for code in Exit:
        assert f"| {code:d} | {code.meaning} |" in reference.reference_text()


@pytest.mark.parametrize("form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=name_of)
def test_issue_forms_can_be_shown(form: Path) -> None:
    shown = yaml.safe_load(form.read_text())
    if form.stem == "config":
        assert shown == {"blank_issues_enabled": True}
        return
    assert shown["name"] and shown["description"]
    names = [question["id"] for question in shown["body"]]
    assert len(names) == len(set(names))
    assert all(question["attributes"]["label"] for question in shown["body"])
