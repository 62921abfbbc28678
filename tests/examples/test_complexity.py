"""Counters of the examples, measured with the embedded backend, grow as their complexity files say."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import yaml
from example_programs import COUNTED, EXAMPLES, NAMES

from buran.campaign.plan import Mode
from buran.profiles.metrics import table
from buran.profiles.profile import Profile
from buran_studies.memory.kernels import theory

sys.path.append(str(EXAMPLES.parent / "studies" / "benchmarks"))
from overhead import Workload, Workshop

pytestmark = [pytest.mark.mpi, pytest.mark.thorough]

BASE = {
    "bodies": {"p": 2, "n": 1024},
    "stencil": {"p": 2, "n": 8, "steps": 3},
    "sweep": {"p": 2, "n": 6, "blocks": 3, "iterations": 2},
    "treesort": {"p": 4, "n": 1024},
}
VALUES = {
    "p": (1, 2, 4, 8),
    "n": (4, 6, 8, 12, 16),
    "steps": (1, 2, 4, 8),
    "blocks": (1, 2, 4, 8),
    "iterations": (1, 2, 4, 8),
}
MANY = (256, 512, 1024, 2048, 4096)  # terms of lower order are small there
OPERATIONS = tuple(
    name for name in ("flops", "loads", "stores", "bytes_loaded", "bytes_stored") if name in table()
)  # if the plug-in is there that counts them
EXPONENTS = sorted({Fraction(i, d) for d in (1, 2, 3, 4) for i in range(3 * d + 1)})
Measure = Callable[[str, tuple[tuple[str, int], ...]], Profile]


@pytest.fixture(scope="session")
def measure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measure]:
    """Return a function from program and point to the profile of one run with basic-block counters."""
    workshop = Workshop.open("auto", tmp_path_factory.mktemp("workshop"))
    if workshop.toolchain.plugin is None:
        pytest.skip("needs a clang with its headers")
    build = cache(lambda name: workshop.build(Workload(name, name, ()), Mode.EFFORT, None))

    @cache
    def profile(name: str, point: tuple[tuple[str, int], ...]) -> Profile:
        ranks, *arguments = (value for _, value in point)
        workload = Workload(name, name, tuple(map(str, arguments)))
        _, result = workshop.run(build(name), workload, Mode.EFFORT, ranks)
        assert result is not None
        return result

    yield profile


def totals(profile: Profile, metric: str, kernel: str) -> float:
    """Mean over ranks, summed over all call paths that end with the kernel."""
    bare = [region.name.split("(")[0] for region in profile.tree.regions]
    paths: list[str] = []
    for region, parent in zip(profile.tree.region, profile.tree.parent, strict=True):
        paths.append(bare[region] if parent < 0 else f"{paths[parent]}->{bare[region]}")
    rows = [row for row, path in enumerate(paths) if f"->{path}".endswith(f"->{kernel}")]
    return float(profile.exclusive(metric)[rows].mean(axis=1).sum())


def misfit(x: np.ndarray, y: np.ndarray, exponent: Fraction, log: int) -> float:
    """Relative error of the best a + b x^exponent log2(x)^log with b > 0."""
    term = x ** float(exponent) * np.log2(x) ** log
    design = np.column_stack([np.ones_like(x), term])
    coefficients, _, rank, _ = np.linalg.lstsq(design, y, rcond=None)
    if rank < 2 or coefficients[1] <= 0:
        return float("inf")
    return float(np.linalg.norm(design @ coefficients - y) / np.linalg.norm(y))


def leading_term(x: Sequence[int], y: Sequence[float]) -> tuple[Fraction, int]:
    """Exponent and log exponent of the single term that describes y best; (0, 0) if y does not change."""
    if np.ptp(y) <= 1e-12 * abs(np.max(y)):
        return Fraction(0), 0
    values, counts = np.array(x, dtype=float), np.array(y)
    terms = [(exponent, log) for exponent in EXPONENTS for log in (0, 1, 2) if exponent or log]
    return min(terms, key=lambda term: misfit(values, counts, *term))


@pytest.mark.parametrize(("name", "parameter"), [(name, parameter) for name in COUNTED for parameter in BASE[name]])
def test_leading_terms(measure: Measure, name: str, parameter: str) -> None:
    values = MANY if name in ("bodies", "treesort") and parameter == "n" else VALUES[parameter]
    profiles = [measure(name, tuple({**BASE[name], parameter: value}.items())) for value in values]
    kernels = yaml.safe_load((EXAMPLES / name / "complexity.yaml").read_text())["kernels"]
    wrong = []
    for kernel, metrics in kernels.items():
        for metric, claims in metrics.items():
            if parameter not in claims:
                continue
            counts = [totals(profile, metric, kernel) for profile in profiles]
            claim = claims[parameter]
            expected = tuple(claim) if isinstance(claim, list) else (claim, 0)
            if max(counts) == 0 or leading_term(values, counts) != expected:
                wrong.append((kernel, metric, expected, counts))
    assert not wrong


@pytest.mark.parametrize("name", NAMES)
def test_kernels_ask_for_what_their_source_says(measure: Measure, name: str) -> None:
    profile = measure(name, tuple(BASE[name].items()))
    visit = theory(name, {"blocks": 1, **BASE[name]})
    expected = {
        kernel: [totals(profile, "visits", kernel) * amount for amount in amounts[: len(OPERATIONS)]]
        for kernel, amounts in visit.items()
    }
    found = {kernel: [totals(profile, metric, kernel) for metric in OPERATIONS] for kernel in visit}
    assert found == expected


@pytest.mark.parametrize("name", NAMES)
def test_two_runs_count_the_same(measure: Measure, name: str) -> None:
    point = tuple(BASE[name].items())
    first = measure(name, point)
    again = measure.__wrapped__(name, point)  # type: ignore[attr-defined]
    assert again is not first
    assert again.tree.names == first.tree.names
    for metric in ("visits", "basic_blocks", *OPERATIONS, "bytes_sent", "bytes_received"):
        np.testing.assert_array_equal(again.values[metric], first.values[metric])


@pytest.mark.parametrize(("exponent", "log"), [(3, 0), (2, 0), (1, 1), (0, 1), (1, 0)])
def test_leading_term_tells_neighbours_apart(exponent: int, log: int) -> None:
    """The judge itself: it finds a planted term beside a constant, and not a neighbouring one."""
    x = (4, 6, 8, 12, 16)
    y = [7 + 5 * value**exponent * np.log2(value) ** log for value in x]
    assert leading_term(x, y) == (exponent, log)
    assert leading_term(x, [7.0] * 5) == (0, 0)
