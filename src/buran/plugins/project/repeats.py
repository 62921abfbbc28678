"""Whether the counts of a program are linear in a number of steps: four short runs tell, before any campaign."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import yaml

from buran.files import not_synced, write_text
from buran.modeling.priors.steps import not_repeated
from buran.workflow.collect import counts_of
from buran.workflow.history import History
from buran.workflow.session import open_session
from buran.workflow.steps import Course, Step

_SHARE = 10  # of the least number of steps that was named: the first run's
_TIME_LIMIT_S = 60


@dataclass(frozen=True)
class Shown:
    """What counts say of a number of steps.

    Attributes
    ----------
    at
        The numbers of steps that were run.
    refuted
        Call paths that are not linear in them, those with most work first.
    """

    at: tuple[int, ...]
    refuted: tuple[str, ...]


def shown_by_counts(text: str, source: Path, name: str) -> Shown | None:
    """Count a program at one, two and three times few steps, at the least values of all else; None without counts.

    Parameters
    ----------
    text
        Of a campaign file whose parameter `name` has the role size.
    source
        The project's folder.

    Raises
    ------
    BuranError
        The campaign has mistakes, or the program is not built.
    """
    described = yaml.safe_load(text)
    values = {each: sorted(given["values"]) for each, given in described["parameters"].items()}
    few = max(values[name][0] // _SHARE, 2)
    at = few, 2 * few, 3 * few
    least = {each: given[0] for each, given in values.items()}
    other = {each: given[1] for each, given in values.items()}  # of what is a parameter there are two values
    described |= {
        "parameters": {each: {"role": given["role"]} for each, given in described["parameters"].items()},
        "points": [*({**least, name: steps} for steps in at), {**other, name: few}],
        "program": {**described["program"], "source": str(source.resolve())},
        "metrics": ["basic_blocks"],
        "strategy": {"name": "full"},
        "refinement": {"enabled": False},
        "effort_repetitions": 1,
        "resources": {**described["resources"], "time_limit": _TIME_LIMIT_S},
    }
    described = {key: value for key, value in described.items() if key not in ("budget", "target")}
    with tempfile.TemporaryDirectory(prefix="buran-init-") as folder, not_synced():
        file = Path(folder).resolve() / "campaign.yaml"
        write_text(file, yaml.safe_dump(described, sort_keys=False))
        session = open_session(file)
        for step in Course.of(session).until(Step("model", "0")):
            if step.kind != "model":
                step.carry_out(session)
        runs = History.open(session).runs
        counted = counts_of(runs, session.campaign.parameters)
        if counted is None or {run.point[name] for run in runs} != set(at):
            return None
        return Shown(at, not_repeated(counted, {name: at[-1]}).get(name, ()))
