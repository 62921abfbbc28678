"""The evaluation of priors: few draws, the same code."""

from __future__ import annotations

import json

import numpy as np
import pytest

from buran.errors import UsageError
from buran.modeling.functions.terms import added
from buran_studies.evaluation.evaluation import Kind, Verdict
from buran_studies.evaluation.study import NEEDS, Settings
from buran_studies.priors import published
from buran_studies.priors import simulated as priors_simulated
from buran_studies.priors import study as priors
from buran_studies.quality import exponent_deviation


@pytest.mark.thorough
def test_the_quick_study_reaches_its_goals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priors, "LEVELS", (2, 75))
    settings = Settings("priors", quick=True, seed=5, draws=1)
    shards = priors.shards(settings)
    assert {shard["kind"] for shard in shards} == {"draw", "subsets", "outliers", "waiting"}
    results = [json.loads(json.dumps(priors.run_shard(shard, settings))) for shard in shards]
    found = priors.summarise(results, settings)
    by_name = {figure.name: figure for figure in found.figures}
    for part in priors.PARTS:
        with_prior = by_name[f"{part}: relative error at 75 % noise, resilient"]
        without = by_name[f"{part}: relative error at 75 % noise, sensitive"]
        assert with_prior.value is not None and without.value is not None
        assert with_prior.value < without.value and with_prior.value < 25
        cost = by_name[f"{part}: cost of five classic repetitions, single"].value
        assert cost is not None and cost < 40
    assert by_name["waiting: wavefront, named"].value == 100
    control = by_name["waiting: noise-only control, named"].value
    assert control is not None and control <= 10
    assert all(figure.kind is Kind.SIMULATED for figure in found.figures)
    wild = next(table for table in found.tables if "times too large" in table.title)
    assert len(wild.rows) == 2 * 2 * 3
    for row in wild.rows:
        robust, least_squares = (float(str(cell).split()[0]) for cell in row[3:])
        assert robust < (least_squares / 2 if row[2] else 1.1 * least_squares)


def test_the_full_study_measures() -> None:
    shards = priors.shards(Settings("priors"))
    kinds = [shard["kind"] for shard in shards]
    assert kinds[:6] == ["count"] + ["time"] * 5 and all(shard["functions"] == 200 for shard in shards[:6])
    assert {shard["example"] for shard in shards if shard["kind"] == "case"} == {"sweep", "treesort", "stencil"}
    noise = [shard for shard in shards if shard["kind"] == "noise"]
    assert {shard["level"] for shard in noise} == {2, 5, 10, 50, 75} and {shard["draws"] for shard in noise} == {100}
    drawn = [shard for shard in shards if shard["kind"] == "draw"]
    assert {shard["level"] for shard in drawn} == {2, 5, 10, 50, 75} and {shard["draws"] for shard in drawn} == {100}
    assert sum(shard["count"] for shard in drawn) == 200 * 2 * 5


def test_presets() -> None:
    small = priors.shards(Settings("priors", preset="small"))
    assert {shard["functions"] for shard in small if "functions" in shard} == {40}
    with pytest.raises(UsageError, match="no preset 'huge'"):
        priors.shards(Settings("priors", preset="huge"))


@pytest.mark.parametrize("part", priors.PARTS)
def test_priors_of_sparse_counts_have_the_exponents(part: str) -> None:
    program = priors_simulated.Program.of(part, 6, 0, 7)
    for prior, function in zip(program.priors, program.functions, strict=True):
        assert exponent_deviation(added(prior.functions), function.expected, 2).max() == 0
    assert len(program.counted) < len(priors_simulated.POINTS)
    assert program.cost["sparse"] < program.cost["single"] < program.cost["paper"]


def test_the_same_seed_gives_the_same_numbers() -> None:
    one, again = (priors_simulated.draw("computation", 2, 0, 3, 10, 2) for _ in range(2))
    assert one == again
    assert np.isfinite(one["re"]["resilient"]).all()


def test_the_published_preset_puts_errors_of_real_runs_beside_the_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BURAN_EXTRAP_PYTHON", raising=False)
    settings = Settings("priors", preset="published", quick=True)
    made = priors.shards(settings)
    kinds = [shard["kind"] for shard in made]
    assert kinds == ["count", *["time"] * 5, *["judge"] * 4]
    assert all(list(shard[NEEDS]) == made[:6] for shard in made[6:])
    results = [{} for _ in range(6)]
    for shard in made[6:]:
        good, bad = ([10.0, 30.0], [20.0, 120.0]) if shard["level"] else ([35.0, 35.0], [45.0, None])
        errors = dict(zip(published.METHODS, (good, good, bad, bad), strict=True))
        results.append(
            {"part": shard["part"], "level": shard["level"], "extrap": False, "re": errors, "ed": [0.0, 0.0]}
        )
    found = priors.summarise(results, settings)
    rows = {row.element: row for row in found.beside}
    noisy = rows["Fig. 3: relative error, computation, 75 % artificial noise, with priors"]
    assert (noisy.published, noisy.here, noisy.samples) == (35.0, 20.0, 2)
    plain = rows["Fig. 3: relative error, computation, measured times, without priors"]
    assert (plain.published, plain.here, plain.samples) == (45.0, 45.0, 1) and plain.verdict is Verdict.REPRODUCED
    assert rows["section 5.2.1: largest exponent deviation of priors, communication"].verdict is Verdict.REPRODUCED
    assert rows["section 5.3: Kripke"].verdict is Verdict.MISSING
