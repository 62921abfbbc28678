"""How the documentation becomes pages: ``make docs``."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

from buran import __version__

project = "Buran"
author = "The Buran developers"
copyright = author
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
root_doc = "index"
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "Buran"
html_copy_source = False
html_show_sphinx = False
nitpicky = False

myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # snippets may leave things out

napoleon_google_docstring = False
napoleon_use_rtype = False
autodoc_typehints = "none"  # signatures say them
autodoc_member_order = "bysource"

PARTS = ("tutorial", "how-to", "reference", "explanation", "evidence", "development")


def list_pages(app: Sphinx, name: str, source: list[str]) -> None:
    """Give index pages the list of pages that the navigation needs, and the forge does not.

    Pages stand in the order in which the index page links to them; pages that it forgets come last.
    """
    if Path(name).name != "index":
        return
    folder = (Path(app.srcdir) / name).parent
    linked = re.findall(r"\]\(([\w-]+)\.md\)", source[0])
    there = sorted(path.stem for path in folder.glob("*.md") if path.stem != "index")
    parts = [f"{part}/index" for part in PARTS] if name == root_doc else []
    pages = [*parts, *dict.fromkeys([*linked, *there])]
    source[0] += "\n```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n"


def setup(app: Sphinx) -> None:
    """Register what this project adds to the generator."""
    app.connect("source-read", list_pages)
