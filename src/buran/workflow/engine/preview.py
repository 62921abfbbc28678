"""What a job would be submitted with, to the letter, without submitting it.

The workflow engine and its executor make the command themselves: they run for one job in a folder of their own, with
a submit command that writes down what it is given and refuses.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from buran.campaign.layout import Layout
from buran.campaign.plan import Bundle, Plan
from buran.errors import ToolError
from buran.files import write_json
from buran.workflow.engine import controller
from buran.workflow.engine.batches import division_of
from buran.workflow.session import RESULTS_VARIABLE, Session
from buran.workflow.specs import write_plan

_SUBMIT = """#!/bin/sh
echo SUBMIT {name} > {record}
for word; do printf '%s\\0' "$word"; done >> {record}
for script; do :; done
test -f "$script" && cp "$script" {record}.script
echo "nothing is submitted in a dry run" >&2
exit 1
"""


def submission(
    session: Session, plan: Plan, bundle: Bundle, profile: controller.EngineProfile, extra: Sequence[str]
) -> str:
    """Return the command that submits a bundle's job, and its script if that is a file.

    Parameters
    ----------
    extra
        Options of the workflow engine in addition to those of the profile.

    Raises
    ------
    ToolError
        The executor did not come to submit anything.
    """
    submit = profile.submit_program
    if submit is None:
        raise ToolError("the profile does not say how jobs are submitted", where=profile.folder)
    with tempfile.TemporaryDirectory(prefix="buran-preview-") as name:
        folder = Path(name).resolve()
        record = folder / "submitted"
        script = folder / "tools" / submit
        script.parent.mkdir()
        script.write_text(_SUBMIT.format(name=submit, record=record))
        script.chmod(0o755)
        layout = Layout(folder / "results")
        target = _prepare(session, layout, plan, bundle)
        command = controller.engine_command(session.campaign.path, layout, profile, [*extra, "--", target])
        environment = {
            **os.environ,
            "PATH": f"{script.parent}{os.pathsep}{os.environ.get('PATH', '')}",
            RESULTS_VARIABLE: str(layout.root),
        }
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if not record.is_file():
            raise ToolError("the executor submits nothing", why=(done.stderr or done.stdout)[-2000:])
        words = record.read_text().partition("\n")[2].split("\0")[:-1]
        text = shlex.join([submit, *words])
        if Path(f"{record}.script").is_file():
            text += "\n" + Path(f"{record}.script").read_text()
        return text.replace(str(layout.root), str(session.layout.root))


def _prepare(session: Session, layout: Layout, plan: Plan, bundle: Bundle) -> str:
    """Make everything that a bundle's job waits for; return the file it is to make."""
    write_plan(layout, session.id, plan)
    for build in plan.builds:
        write_json(layout.build_pointer(build.hash), {})
    time_outs = session.layout.time_outs(bundle.id)
    if time_outs.is_file():
        layout.time_outs(bundle.id).parent.mkdir(parents=True, exist_ok=True)
        layout.time_outs(bundle.id).write_text(time_outs.read_text())
    relative = session.relative_paths
    for batch, bundles in division_of(session.elsewhere(layout.root), plan, in_arrays=False).batches.items():
        if bundle.id in bundles:
            return str(relative.batch_pointer(batch))
    return str(relative.bundle_pointer(bundle.id))
