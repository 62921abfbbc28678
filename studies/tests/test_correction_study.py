"""The study of corrections, with tiny draws."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from buran.errors import FormatError, UsageError
from buran.modeling.correction import load_base
from buran.modeling.correction.mecp.search import EvolutionTuning
from buran_studies.correction import published
from buran_studies.correction import study as correction
from buran_studies.correction import truth as correction_truth
from buran_studies.correction.truth import FAMILIES, SPLITS, THRESHOLDS, draw, read_broadcast, truth
from buran_studies.evaluation.evaluation import Verdict
from buran_studies.evaluation.study import STUDIES, Settings
from buran_studies.evaluation.text import text_of


@pytest.mark.parametrize("family", FAMILIES)
def test_every_truth_leaves_the_base_model_beyond_its_threshold(family: str) -> None:
    below, above = np.array([[512.0, 8.0, 0.1]]), np.array([[512.0, 256.0, 0.1]])
    early, late = (truth(above, family, threshold)[0] for threshold in (THRESHOLDS[0], 1e9))
    assert early > 1.1 * late > 0 and truth(below, family, 32.0)[0] > 0


def test_splits_hold_out_what_they_say() -> None:
    for split in SPLITS:
        own = draw("contention", split, 0, np.random.default_rng(1))
        again = draw("contention", split, 0, np.random.default_rng(1))
        assert np.array_equal(own.values, again.values) and np.array_equal(own.train, again.train)
        assert own.points.shape == (32, 3)
        ranks = own.points[own.train, 1]
        assert {"half": own.train.sum() == 16, "extrapolation": ranks.max() == 64, "blind": ranks.max() == 32}[split]


def test_the_known_form_finds_the_truth() -> None:
    own = draw("contention", "half", 1, np.random.default_rng(2))
    exact = truth(own.points, "contention", THRESHOLDS[1])
    found = correction_truth.known_form(load_base("evh1_2d_reconstructed"), replace(own, values=exact), THRESHOLDS[1])
    assert np.allclose(found, exact, rtol=0.02)


def test_shards_name_their_seed_and_need_data_only_for_broadcasts() -> None:
    without = correction.shards(Settings("correction", seed=5))
    assert all(shard["seed"] == 5 for shard in without)
    assert {shard["kind"] for shard in without} == {"synthetic", "published"}
    with_data = correction.shards(Settings("correction", data="somewhere"))
    assert {shard["kind"] for shard in with_data} == {"synthetic", "published", "broadcast"}
    assert sum(s["count"] for s in without if s.get("family") == "contention") >= 30
    assert "correction" in STUDIES
    with pytest.raises(UsageError, match="no preset 'best'"):
        correction.shards(Settings("correction", preset="best"))


def test_the_published_preset_counts_the_trials_that_are_better(monkeypatch: pytest.MonkeyPatch) -> None:
    original = published.run_trials
    small = EvolutionTuning(40, 3, nodes=25)
    monkeypatch.setattr(published, "run_trials", lambda *a, **k: original(*a, **k, search=small))
    settings = Settings("correction", preset="published", quick=True, seed=3, draws=2)
    made = correction.shards(settings)
    assert [shard["case"] for shard in made] == [1, 2, 3, 4]
    results = json.loads(json.dumps([correction.run_shard(shard, settings) for shard in made], allow_nan=False))
    found = correction.summarise(results, settings)
    assert [row.published for row in found.beside[:4]] == [77, 73, 50, 90]
    assert {row.samples for row in found.beside[:4]} == {2} and found.beside[-1].verdict is Verdict.MISSING
    full = correction.shards(Settings("correction", preset="published"))
    assert {shard["family"] for shard in full} == set(FAMILIES)
    assert sum(s["trials"] for s in full if (s["family"], s["division"], s["case"]) == ("contention", 0, 1)) == 30


def test_trials_that_did_not_converge_do_not_count() -> None:
    own = {"original": 2.0, "division": 0, "test": [1.0, None, 4.0], "train": [0.5, None, 0.1]}
    assert published._ratios([own]).tolist() == [0.5, 2.0] and published._chosen([own]) == 2.0


@pytest.mark.thorough
def test_results_become_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    original = correction.run_trials
    small = EvolutionTuning(50, 4, nodes=25)
    monkeypatch.setattr(correction, "run_trials", lambda *a, **k: original(*a, **k, search=small))
    settings = Settings("correction", quick=True, seed=3)
    chosen = [
        s for s in correction.shards(settings) if s["kind"] == "published" or s["family"] in ("contention", "step")
    ]
    chosen = [{**s, "count": 1} if s["kind"] == "synthetic" else s for s in chosen if s.get("split") != "extrapolation"]
    results = json.loads(json.dumps([correction.run_shard(shard, settings) for shard in chosen], allow_nan=False))
    found = correction.summarise(results, settings)
    values = {figure.name: figure for figure in found.figures}
    assert values["half median"].samples == 1 and values["half median"].goal == "at most 0.65"
    assert values["replicates with an invalid prediction"].value == 0
    assert values["broadcast interpolation median"].value is None
    assert {plot.name for plot in found.plots} == {f"figure-{i}" for i in range(4, 10)} | {"ratios"}
    ratios = next(plot for plot in found.plots if plot.name == "ratios")
    assert [curve.name for curve in ratios.curves] == list(SPLITS)
    assert "best of trials" in text_of(found)
    json.dumps(found.to_json(), allow_nan=False)


def test_broadcasts_among_one_rank_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "cpr").mkdir()
    for name in ("bcast_train.csv", "bcast_test.csv"):
        (tmp_path / "cpr" / name).write_text("msgsize,ppn,nnodes,avg,std\n0,100,1,1,1e-6,0\n1,100,2,4,2e-6,0\n")
    points, values = read_broadcast(tmp_path)
    assert points.tolist() == [[100, 2, 4]] * 2 and values.tolist() == [2e-6] * 2
    (tmp_path / "cpr" / "bcast_test.csv").write_text("a,b\n1,2\n")
    with pytest.raises(FormatError, match="six fields"):
        read_broadcast(tmp_path)
    with pytest.raises(FormatError, match="cannot be read"):
        read_broadcast(tmp_path / "nowhere")


def test_the_broadcast_base_is_a_tree() -> None:
    base = correction_truth.broadcast_base()
    assert base.evaluate(np.array([1.0, 2.0]), np.array([[3.0, 2.0, 8.0]]))[0] == pytest.approx((1 + 2 * 3) * 4)
