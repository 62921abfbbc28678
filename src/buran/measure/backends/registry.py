"""Which backends there are."""

from __future__ import annotations

from pathlib import Path

from buran.errors import ConfigError
from buran.files import digest, write_text
from buran.measure.backends.embedded import Backend, EmbeddedBackend
from buran.measure.backends.scorep import ScorePBackend, find_scorep
from buran.measure.toolchain.toolchain import find_toolchain


def open_backend(
    name: str,
    compiler: str,
    scratch: Path,
    counters: tuple[str, ...] = (),
    memory_mb: int = 128,
    effort_metric: str | None = None,
) -> Backend:
    """Prepare a backend for use on this machine.

    Parameters
    ----------
    name
        As in the campaign file.
    compiler
        Wanted compiler family, or ``auto``.
    scratch
        Folder of the campaign for files that builds refer to.
    counters
        As in the campaign file.
    memory_mb
        For Score-P, in each process.
    effort_metric
        Of Score-P, instead of basic blocks.

    Raises
    ------
    ToolError
        A compiler or an MPI is missing.
    ConfigError
        There is no such backend.
    """
    if name not in ("embedded", "scorep"):
        raise ConfigError(f"unknown backend {name!r}", where="backend", why="allowed: embedded, scorep")
    toolchain = find_toolchain(compiler=compiler)
    text = toolchain.to_json()
    path = scratch / f"toolchain-{digest(text)}.json"
    if not path.is_file():
        write_text(path, text)
    embedded = EmbeddedBackend(toolchain, path, counters)
    return embedded if name == "embedded" else ScorePBackend(find_scorep(), embedded, memory_mb, effort_metric)
