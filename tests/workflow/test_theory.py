"""The bundled programs, measured as campaigns: models of counts have the exponents that theory gives."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from buran.modeling.pmnf.model_set import ModelSet, read_models
from workbench import Workbench

pytestmark = [pytest.mark.mpi, pytest.mark.thorough]

EXAMPLES = Path(__file__).parents[2] / "examples"

# Sizes are powers of two where counts follow the ceiling of a logarithm.
SPACES: dict[str, tuple[str, str, dict[str, list[int]]]] = {
    "stencil": ("MPICXX={mpicxx} CXXFLAGS='{flags}'", "{n} {steps}", {"n": [6, 8, 10, 12, 16], "steps": [2, 4]}),
    "sweep": ("MPICC={mpicc} CFLAGS='{flags}'", "{n} {blocks}", {"n": [4, 6, 8, 10, 12], "blocks": [2, 4]}),
    "treesort": ("MPICXX={mpicxx} CXXFLAGS='{flags}'", "{n}", {"n": [256, 512, 1024, 2048, 4096]}),
}
RANKS = {"stencil": [1, 2, 4], "sweep": [1, 2, 4], "treesort": [1, 2, 4, 8, 16]}


def without_arguments(path: str) -> str:
    """``a(int)->b(char const*)`` as ``a->b``."""
    previous = ""
    while previous != path:
        previous, path = path, re.sub(r"\([^()]*\)( const)?", "", path)
    return path


def matching(models: ModelSet, kernel: str) -> list[Any]:
    return [
        model
        for path, model in zip(models.call_paths, models.models, strict=True)
        if ("->" + without_arguments(path)).endswith("->" + kernel)
    ]


@pytest.mark.parametrize("name", sorted(SPACES))
def test_models_of_counts_have_the_exponents_of_theory(name: str, tmp_path: Path) -> None:
    make, arguments, sizes = SPACES[name]
    bench = Workbench(tmp_path, results_name=name)
    parameters = {"p": {"role": "ranks", "values": RANKS[name]}}
    parameters |= {size: {"role": "size", "values": values} for size, values in sizes.items()}
    bench.write(
        name=name,
        program={
            "source": str(EXAMPLES / name),
            "build": f"make {make}",
            "flags": "-O2",
            "binary": name,
            "run": f"{{binary}} {arguments}",
        },
        parameters=parameters,
        repetitions=1,
        effort_repetitions=1,
        warmup=False,
        refinement={"enabled": False},
        strategy={"name": "full", "max_iterations": 1},
        resources={"time_limit": 60, "points_per_job": 30},  # one engine job each would take most of the time
    )
    bench.buran("run", "campaign.yaml")
    sets = {model.metric: model for model in read_models(bench.results / "latest" / "models.json")}
    theory = yaml.safe_load((EXAMPLES / name / "complexity.yaml").read_text())
    columns = {parameter: index for index, parameter in enumerate(parameters)}
    wrong = []
    for kernel, metrics in theory["kernels"].items():
        for metric, exponents in metrics.items():
            found = matching(sets[metric], kernel)
            assert found, f"no call path ends with {kernel}"
            for parameter, exponent in exponents.items():
                if parameter not in columns:
                    continue
                expected = tuple(exponent) if isinstance(exponent, list) else (exponent, 0)
                # Theory speaks of all call paths of a kernel together: the fastest one decides.
                lead = max(model.function.lead(columns[parameter]) for model in found)
                if tuple(map(float, lead)) != expected:
                    texts = [str(model.function) for model in found]
                    wrong.append(f"{kernel} {metric}: {parameter} has {lead}, theory says {expected}: {texts}")
    assert not wrong, "\n".join(wrong)
