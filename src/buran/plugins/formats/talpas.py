"""TaLPas: an object a line for each value, with semicolons between its pairs."""

from __future__ import annotations

import re
from pathlib import Path

from buran.profiles.experiment.formats import Reader, Sample
from buran.profiles.experiment.jsonl import json_object, read_lines
from buran.profiles.experiment.table import Experiment

_LINE = '{"parameters":{"x":4};"metric":"time";"callpath":"main->solve";"value":1.5}'
_SEMICOLON = re.compile(r'"(?:[^"\\]|\\.)*"|;')


def talpas_to_json(line: str) -> str:
    """Replace the semicolons between the pairs of a TaLPas line; those within strings stay."""
    return _SEMICOLON.sub(lambda match: "," if match[0] == ";" else match[0], line)


def recognises(sample: Sample) -> bool:
    """Tell whether the first line is an object with a value, and none of JSON Lines."""
    data = json_object(sample.first_line) or json_object(talpas_to_json(sample.first_line))
    return "value" in data and "params" not in data


def read_talpas(path: Path) -> Experiment:
    """Read TaLPas lines: ``parameters``, ``callpath``, ``metric``, ``value``, separated by semicolons.

    Raises
    ------
    FormatError
        Names the line and what is expected.
    """
    return read_lines(path, "parameters", _LINE, talpas_to_json)


READER = Reader("a TaLPas file", recognises, lambda path, problems: read_talpas(path))
