"""Files of ours that Extra-P read and saved with its models: it found in them what we find (tests/data/extrap)."""

from __future__ import annotations

import json
import zipfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from buran.modeling.experiments import model_experiment
from buran.modeling.pmnf.text import format_function
from buran.profiles.experiment.collect import split_call_path
from buran.profiles.experiment.read import read_experiment
from buran.profiles.experiment.table import Experiment
from buran.profiles.names import shown_name, without_arguments, without_return_type
from buran.profiles.profile import SEPARATOR

DATA = Path(__file__).parents[2] / "data"
FILES = {
    "text": (DATA / "extrap" / "stencil.txt", "stencil.txt.extra-p", ("time", "basic_blocks", "bytes_sent")),
    "json": (DATA / "extrap" / "stencil.json", "stencil.json.extra-p", ("time", "basic_blocks", "bytes_sent")),
    "jsonl": (DATA / "extrap" / "stencil.jsonl", "stencil.jsonl.extra-p", ("time", "basic_blocks")),
    "cubex": (DATA / "scorep" / "tree", "scorep-tree.extra-p", ("time", "visits", "bytes_sent", "bytes_received")),
}
EXACT = {"text": 3, "json": 3, "jsonl": 1, "cubex": 2}
"""Models that both find, without an error; two values of the ranks leave the rest to taste."""
STATISTICS = {"mean": np.nanmean, "median": np.nanmedian, "minimum": np.nanmin, "maximum": np.nanmax}


def saved(name: str) -> dict[str, Any]:
    """Return an experiment that Extra-P saved, as it wrote it."""
    with zipfile.ZipFile(DATA / "extrap" / name) as file:
        return json.loads(file.read("experiment.json"))


def value_of(function: dict[str, Any], point: tuple[float, ...]) -> float:
    """Evaluate a function as Extra-P saves it."""
    value = function["constant_coefficient"]
    for term in function["compound_terms"]:
        product = term["coefficient"]
        for parameter, factor in term["parameter_term_pairs"].items():
            product *= factor["coefficient"]
            for simple in factor["simple_terms"]:
                x = point[int(parameter)]
                product *= (x if simple["term_type"] == "polynomial" else np.log2(x)) ** float(
                    Fraction(simple["exponent"])
                )
        value += product
    return float(value)


def in_our_words(call_path: str, symbols: set[str]) -> str:
    """Return a call path of Extra-P, which keeps the return types that Score-P records, under our names."""
    found = []
    for part in split_call_path(call_path):
        bare = without_arguments(without_return_type(part))
        found.append(shown_name(part, bare if bare in symbols else "_Z"))
    return SEPARATOR.join(found)


def of_extra_p(by_path: dict[str, Any], table: Experiment) -> dict[str, Any]:
    """Return what Extra-P has for each call path, under our names."""
    symbols = {region.mangled for region in table.tree.regions if not region.mangled.startswith("_Z")}
    return {in_our_words(call_path, symbols): found for call_path, found in by_path.items()}


@pytest.mark.parametrize("kind", FILES)
def test_extra_p_read_what_we_read(kind: str) -> None:
    path, experiment, metrics = FILES[kind]
    table, theirs = read_experiment(path), saved(experiment)
    assert theirs["Extra-P"] == "4.2.5" and list(table.parameters) == theirs["parameters"]
    names = list(table.tree.names)
    measurements = of_extra_p(theirs["measurements"], table)
    assert measurements.keys() <= set(names)
    if kind == "cubex":
        assert measurements.keys() == set(names), "no call path was merged away"
    points = [tuple(point) for point in table.points.tolist()]
    compared = 0
    for call_path, by_metric in measurements.items():
        for metric in set(metrics) & by_metric.keys():
            values = table.over_locations(metric)[names.index(call_path)]
            assert len(by_metric[metric]) == len(points)
            for entry in by_metric[metric]:
                ours = values[points.index(tuple(entry["coordinate"]))]
                assert entry["repetitions"] == np.isfinite(ours).sum()
                # over the ranks, Extra-P's extremes and median are others than ours over repetitions
                for statistic in STATISTICS if kind != "cubex" else ("mean",):
                    assert entry[statistic] == pytest.approx(STATISTICS[statistic](ours), rel=1e-9, abs=1e-15)
                compared += 1
    assert compared > len(points)


@pytest.mark.parametrize("kind", FILES)
def test_exact_counts_have_the_models_that_extra_p_found(kind: str) -> None:
    path, experiment, metrics = FILES[kind]
    table = read_experiment(path)
    theirs = of_extra_p(saved(experiment)["modelers"][0]["models"], table)
    own = model_experiment(table, [metric for metric in metrics if metric != "time"])
    points = [tuple(point) for point in table.points.tolist()]
    compared = 0
    for metric, models in own.items():
        for call_path, model in zip(models.call_paths, models.models, strict=True):
            hypothesis = theirs.get(call_path, {}).get(metric, {}).get("hypothesis", {})
            if model is None or hypothesis.get("AR2", 0) < 1 - 1e-9 or model.quality.smape > 1e-9:
                continue  # not what both find exact
            for point in points:
                assert model.function.evaluate(point) == pytest.approx(
                    value_of(hypothesis["function"], point), rel=1e-6
                )
            compared += 1
    assert compared == EXACT[kind]


def test_extra_p_found_the_known_growth() -> None:
    sets = model_experiment(read_experiment(FILES["text"][0]), ["basic_blocks", "bytes_sent"])
    written = {
        path.rpartition("->")[2].partition("(")[0]: format_function(model.function, models.parameters)
        for models in sets.values()
        for path, model in zip(models.call_paths, models.models, strict=True)
        if model is not None and model.function.terms
    }
    assert written == {
        "jacobi_update": "60 + 20 n^3",
        "MPI_Isend": "960 n^2",
        "MPI_Allreduce": "328 p",
    }
