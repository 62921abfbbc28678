"""The study of tensor models, on data made up in the published format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from buran.errors import FormatError, UsageError
from buran_studies.evaluation.evaluation import Verdict
from buran_studies.evaluation.study import Settings
from buran_studies.evaluation.text import text_of
from buran_studies.tensor import beyond as tensor_beyond
from buran_studies.tensor import published
from buran_studies.tensor import study as tensor
from buran_studies.tensor.data import SOURCES, Sample, draw, load
from buran_studies.tensor.rivals import RIVALS, choices, inputs, judge, missing, standardised
from buran_studies.tensor.sparse_grid import VARIABLE


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cpr")
    random = np.random.default_rng(0)
    for part, count in (("train", 1500), ("test", 100)):
        X = np.rint(np.exp(random.uniform(np.log(32), np.log(4095), (count, 3))))
        y = 1e-9 * X.prod(axis=1) + 1e-6 * X[:, 0]
        rows = [f"{i},{m:.0f},{n:.0f},{k:.0f},{t:.8g},0.1" for i, ((m, n, k), t) in enumerate(zip(X, y, strict=True))]
        (out / f"gemm_{part}.csv").write_text("\n".join(["m,n,k,avg,std", *rows]) + "\n")
    return out


def test_the_draw_of_the_paper() -> None:
    everything = Sample(np.arange(50.0)[:, None], np.arange(50.0))
    random = np.random.RandomState(10)
    random.shuffle(np.arange(7))
    order = np.arange(50)
    random.shuffle(order)
    assert (draw(everything, 20, 10, 7).y == order[:20]).all()


def test_missing_data(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="measured data"):
        load(tmp_path, "gemm", "train")
    with pytest.raises(UsageError, match="needs measured data"):
        tensor.shards(Settings("tensor"))
    with pytest.raises(UsageError, match="protocol"):
        tensor.shards(Settings("tensor", preset="best", data=str(tmp_path)))


def test_the_published_preset_stands_beside_the_program_of_the_authors(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings("tensor", quick=True, preset="published", data=str(folder))
    made = tensor.shards(settings)
    assert {shard.get("data", shard.get("setting")) for shard in made} == {*SOURCES, *tensor_beyond.SETTINGS}
    monkeypatch.setattr(published, "REFERENCES", {(256, "gemm"): published.Reference(8, 2, 0.05, 0.01)})
    own = {"ask": "inside", "data": "gemm", "size": 256, "starts": 2, "seed": 0}
    result = tensor.run_shard(own, settings)
    assert len(result["errors"]) == 2 and 0 < result["errors"][0] < 0.5
    outside = {"ask": "beyond", "setting": "gemm m < 512", "starts": 2, "seed": 0, "errors": [[0.3, 0.134, 0.2]] * 2}
    found = tensor.summarise([{**result, "errors": [0.05, 0.06]}, outside], settings)
    inside, beyond, *absent = found.beside
    assert inside.here == pytest.approx(0.055) and inside.verdict is Verdict.REPRODUCED
    assert beyond.published == 0.134 and beyond.here == pytest.approx(0.134)  # the least of all cells, as published
    assert [row.verdict for row in absent] == [Verdict.MISSING] * 2


def test_shards_say_everything(folder: Path) -> None:
    full = tensor.shards(Settings("tensor", data=str(folder)))
    quick = tensor.shards(Settings("tensor", quick=True, seed=4, data=str(folder)))
    assert len(quick) < 25 < len(full)
    assert {shard["seed"] for shard in quick} == {4000, 4001}
    assert {shard["rival"] for shard in full if shard["ask"] == "rival"} == set(RIVALS)


@pytest.mark.thorough
def test_a_quick_run(folder: Path) -> None:
    settings = Settings("tensor", quick=True, data=str(folder))
    results = []
    for shard in tensor.shards(settings):
        if shard.get("data", "gemm") == "gemm" and shard.get("rival", "k") in ("k", "k nearest neighbours"):
            results.append(tensor.run_shard({**shard, "size": 300}, settings))
    found = tensor.summarise(results, settings)
    text = text_of(found)
    names = {figure.name: figure for figure in found.figures}
    assert "k nearest neighbours" in text and "Extrapolation" in text
    assert names["gemm 300 default"].value < names["gemm 300 k nearest neighbours"].value
    assert names["gain over published at 300, default"].samples == 2
    assert names["gemm 300 default"].standard_error is not None
    assert {plot.name for plot in found.plots} == {"gemm-training", "gemm-size", "gemm-beyond"}


def test_training_and_testing_do_not_overlap(folder: Path) -> None:
    setting = tensor_beyond.SETTINGS["gemm m < 512"]
    train, test = tensor_beyond.split(folder, setting, 100, 0)
    assert train.X[:, 0].max() <= 512 and test.X[:, 0].min() >= 2048


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", ["k nearest neighbours", "log-polynomial ridge and boosting", "support vector machine"]
)
def test_rivals_learn(name: str) -> None:
    random = np.random.default_rng(0)
    X = np.column_stack([np.exp(random.uniform(0, 5, 300)), random.integers(0, 3, 300)])
    y = X[:, 0] * (1 + X[:, 1])
    own = judge(RIVALS[name], Sample(X[:200], y[:200]), Sample(X[200:], y[200:]), ["log", "categorical"], 0, every=True)
    assert own.error < 0.3 and own.best <= own.error and own.size_bytes > 0


def test_rivals_that_cannot_run_say_so() -> None:
    assert missing("performance model normal form", ["log", "categorical"]) is not None
    assert missing("k nearest neighbours", ["log"]) is None


def test_rare_categories_do_not_outweigh_numbers() -> None:
    X = np.column_stack([np.geomspace(1, 100, 200), np.where(np.arange(200) < 2, 7.0, 1.0)])
    scale, categories = ["log", "categorical"], [np.unique(X[:, j]) for j in range(2)]
    assert choices(scale, categories, True) == [1, 2] and choices(scale, categories, False) == [1]
    F = inputs(X, scale, categories, True)
    found = standardised(3, [1, 2], 0.5).fit(F).transform(F)
    assert found[:, 0].std() == pytest.approx(1.0)
    assert set(found[:, 1:].ravel().tolist()) == {0.0, 0.5}


def test_sparse_grids_need_an_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert VARIABLE in str(missing("sparse grid", ["log"]))
    monkeypatch.setenv(VARIABLE, "/nowhere/python")
    assert "no file" in str(missing("sparse grid", ["log"]))
    assert "categories" in str(missing("sparse grid", ["categorical"]))


@pytest.mark.thorough
@pytest.mark.skipif(missing("sparse grid", ["log"]) is not None, reason="no interpreter with pysgpp")
def test_sparse_grids_learn() -> None:
    random = np.random.default_rng(0)
    X = np.exp(random.uniform(0, 5, (300, 2)))
    y = X[:, 0] * X[:, 1]
    own = judge(RIVALS["sparse grid"], Sample(X[:200], y[:200]), Sample(X[200:], y[200:]), ["log"] * 2, 0, every=False)
    assert own.error < 0.2


@pytest.mark.thorough
def test_extrapolations_tell_how_many_their_intervals_hold(folder: Path) -> None:
    rows = tensor_beyond.work(folder, "gemm m < 512", 200, 0)
    default = next(row for row in rows if row["method"] == "default")
    assert 0 <= default["held"] <= 1 and default["factor"] > 1 and default["kb"] <= 60
    assert {"published", "k nearest neighbours", "Gaussian process"} < {row["method"] for row in rows}
