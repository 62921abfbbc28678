"""Formats of files with call graphs, which plug-ins bring."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from buran.extensions import ExtensionPoint

if TYPE_CHECKING:
    from buran.instrumentation.callgraph import CallGraph


class GraphFormat(Protocol):
    """Reads files of call graphs."""

    @property
    def name(self) -> str:
        """Its name on command lines."""

    def recognises(self, path: Path) -> bool:
        """Return whether a file looks like one of this format."""

    def read(self, path: Path) -> CallGraph:
        """Read a file; raise `FormatError` if it is damaged."""


GRAPH_FORMATS: ExtensionPoint[GraphFormat] = ExtensionPoint("format of call graphs", "buran.graphs", GraphFormat, {})
