"""Models by Extra-P itself, which lives in a Python of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from buran.errors import ToolError
from buran.experiment.extrap_json import write_extrap_json
from buran.experiment.source import export_names
from buran.experiment.table import Experiment

VARIABLE = "BURAN_EXTRAP_PYTHON"
"""Names a Python with Extra-P in the environment."""
_SCRIPT = """
import json, sys, warnings
warnings.simplefilter("ignore")
from extrap.fileio.file_reader.json_file_reader import JsonFileReader
from extrap.modelers.model_generator import ModelGenerator
experiment = JsonFileReader().read_experiment(sys.argv[1])
ModelGenerator(experiment, use_median=True).model_all()
target = json.loads(sys.argv[2])
at = tuple(target[parameter.name] for parameter in experiment.parameters)
found = {
    path.name: float(model.hypothesis.function.evaluate(at))
    for (path, _), model in experiment.modelers[0].models.items()
}
print("RESULT" + json.dumps(found))
"""


def extrap_python() -> str | None:
    """Return the Python that has Extra-P; None where none is named."""
    return os.environ.get(VARIABLE) or None


def predictions_by_extrap(
    python: str, table: Experiment, target: Mapping[str, float], folder: Path
) -> dict[str, float]:
    """Return what Extra-P's own models, of medians of repetitions, predict at a point, by call path.

    Parameters
    ----------
    python
        See `extrap_python`.
    table
        Exclusive values of one metric; of locations their mean is modelled.
    folder
        For the files between the two programs.

    Raises
    ------
    ToolError
        That Python has no Extra-P, or Extra-P fails.
    """
    path, script = folder / "extrap.json", folder / "extrap_models.py"
    write_extrap_json(table, path)
    script.write_text(_SCRIPT)
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [python, str(script), str(path), json.dumps(dict(target))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=clean)
    except OSError as error:
        raise _lacks(python, str(error)) from None
    if done.returncode or "RESULT" not in done.stdout:
        raise _lacks(python, done.stderr.strip().rpartition("\n")[2])
    found: dict[str, float] = json.loads(done.stdout.rpartition("RESULT")[2])
    names = dict(zip(export_names(table.tree), table.tree.names, strict=True))
    return {names[path]: value for path, value in found.items()}


def _lacks(python: str, why: str) -> ToolError:
    hint = f"name a Python with Extra-P 4.2 in {VARIABLE}, or none, to model the manual way with Buran's hypotheses"
    return ToolError("Extra-P makes no models", where=f"{VARIABLE}={python}", why=why, hint=hint)
