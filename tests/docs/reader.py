"""Does what a reader of a page does, in a folder of its own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from results import RESULTS, first_command
from snippets import Block, sessions

from patience import PATIENCE_S


@dataclass
class Reader:
    """A folder, a shell and a Python that remember what was typed before."""

    folder: Path
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})

    def read(self, blocks: Sequence[Block]) -> None:
        """Follow a page. Its files are there from the beginning, since pages show the command before what it takes."""
        self.write_files(blocks)
        for block in blocks:
            self.follow(block)

    def write_files(self, blocks: Iterable[Block]) -> None:
        """Write all files of a page."""
        for block in blocks:
            if "file" in block.said:
                path = self.folder / block.said["file"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text)

    def follow(self, block: Block) -> None:
        """Run a block, if it is to be run."""
        if "first" in block.said:
            self._shell(block.said["first"], block, expected=0)
        if not block.is_run:
            return
        expected = int(block.said.get("exit code", 0))
        if block.language == "python":
            # So many empty lines that a traceback names the line of the page.
            exec(compile("\n" * block.line + block.text, str(block.page), "exec"), self.names)
        elif block.language == "sh":
            printed = self._shell(block.text, block, expected)
            wanted = RESULTS.get(block.page.name, {}).get(first_command(block.text), "")
            found = re.search(wanted, printed, re.DOTALL | re.MULTILINE)
            assert found, f"{block.place}: {block.text}\nwanted:\n{wanted}\nprinted:\n{printed}"
        else:
            for typed, wanted in sessions(block.text):
                printed = self._shell(typed, block, expected)
                assert _matches(wanted, printed), f"{block.place}: $ {typed}\nwanted:\n{wanted}\nprinted:\n{printed}"

    def _shell(self, text: str, block: Block, expected: int) -> str:
        """Run commands in bash; where they end and what they export holds for the next ones."""
        state = self.folder.parent / f"{self.folder.name}.state"
        script = f"""
            state={shlex.quote(str(state))}
            if [ -e "$state" ]; then . "$state"; cd "$PWD"; fi
            trap 'export -p >"$state"' EXIT
            set -e -o pipefail
        """
        done = subprocess.run(
            ["timeout", "--kill-after=30", str(PATIENCE_S), "bash", "-c", script + "\n" + text],  # with all it started
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == expected, f"{block.place}: exit code {done.returncode}\n{text}\n{done.stdout[-4000:]}"
        assert "Traceback" not in done.stdout, f"{block.place}\n{done.stdout[-4000:]}"
        return done.stdout

    def _environment(self) -> dict[str, str]:
        own = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            # A lock of its own: other campaigns on this machine neither wait for tests nor disturb them.
            "BURAN_LOCK_FOLDER": str(self.folder.parent / "lock"),
            "NO_COLOR": "1",
            "COLUMNS": "120",
            # Open MPI refuses root, which containers are, and more ranks than cores.
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
        }
        return {**os.environ, **own}


def _matches(wanted: str, printed: str) -> bool:
    """Compare as a reader does: any number stands for any other, white space for white space."""
    pattern = re.sub(r"(\\ )?\\\.\\\.\\\.(\\ )?", ".*", re.escape(_plain(wanted)))
    return re.fullmatch(pattern, _plain(printed), re.DOTALL) is not None


def _plain(text: str) -> str:
    numbers = re.sub(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", "0", text)
    return " ".join(re.sub(r"-{2,}", "--", numbers).split())  # rules below the heads of tables are as wide as they are
