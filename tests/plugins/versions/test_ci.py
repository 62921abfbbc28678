"""A comparison in continuous integration: the script that leaves a comment, and the templates that call it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

CI = Path(__file__).parents[3] / "ci"


def test_the_script_leaves_a_comment(tmp_path: Path) -> None:
    """With a stand-in for `buran`, which tells how it was called."""
    (tmp_path / "bin").mkdir()
    buran = tmp_path / "bin" / "buran"
    buran.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n[ "$1" = run ] && exit 0\n'
        f"touch {tmp_path}/comparison.txt; echo {tmp_path}/comparison.html; exit $CODE\n"
    )
    buran.chmod(0o755)
    (tmp_path / "old.yaml").touch()
    command = [str(CI / "compare"), "new.yaml", "old.yaml", "counts", "out"]
    for code, left in ((5, True), (0, True), (2, False)):
        environment = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "CODE": str(code)}
        (tmp_path / "out" / "comment.md").unlink(missing_ok=True)
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        assert (tmp_path / "out" / "comment.md").is_file() == left
    called = (tmp_path / "calls").read_text().splitlines()[:3]
    assert called == ["run new.yaml", "run old.yaml", "report new.yaml --compare old.yaml --fail-on counts --html"]


@pytest.mark.parametrize("name", ["action.yml", "gitlab.yml"])
def test_templates_call_the_script_with_its_arguments(name: str) -> None:
    text = (CI / name).read_text()
    assert yaml.safe_load(text)
    assert '"$CAMPAIGN" "$BEFORE" "$CONDITIONS" .' in text
    assert "comment.md" in text
