"""Strategies for comparison: their parts, and what is said where they are not installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from buran import plugins
from buran.campaign.load import load_campaign
from buran.campaign.strategies import FOR_COMPARISON
from buran.errors import UsageError
from buran.select.strategies import strategy_of
from buran_studies.functions import beyond, grid
from buran_studies.selection.play import space_of
from buran_studies.selection.strategies.gaussian import expected_improvement, repetition_weight
from buran_studies.selection.strategies.unguided import grid_order


def test_weights_of_repetitions_are_those_of_the_paper() -> None:
    runs = np.array([1.0, 3.0, 10.0])
    expected = [-np.tanh(5 / 4 - 2.5) + 2 ** (r / 2 - 0.5) for r in runs]
    assert repetition_weight(5.0, runs) == pytest.approx(expected)
    low, high = repetition_weight(1.0, runs), repetition_weight(20.0, runs)
    assert (high < low).all()
    assert high[1] / high[0] > low[1] / low[0]


def test_an_improvement_that_is_certain() -> None:
    assert expected_improvement(np.array([1.0]), np.array([0.0]), 0.5) == pytest.approx(0.5)


def test_the_grid_begins_with_the_corners() -> None:
    asked = space_of(grid(2), beyond(2))
    first = asked.points[grid_order(asked)[:4]]
    assert {tuple(point) for point in first} == {(4, 10), (4, 50), (64, 10), (64, 50)}


@pytest.mark.parametrize("name", FOR_COMPARISON)
def test_where_they_are_not_installed_their_package_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert strategy_of(name).name == name
    monkeypatch.setattr(plugins, "_installed", lambda group, path: ())
    with pytest.raises(UsageError, match=f"the strategy '{name}' is not installed") as refused:
        strategy_of(name)
    assert "pip install buran-studies" in str(refused.value)


def test_a_campaign_that_names_one_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "Makefile").write_text("program:\n\ttrue\n")
    (tmp_path / "campaign.yaml").write_text(
        "name: x\nstrategy: {name: bayes}\n"
        "target: {source: source, build: 'make {mpicc}', binary: program, run: '{binary} {n}'}\n"
        "parameters: {p: {role: ranks, values: [1, 2]}, n: {role: size, values: [1, 2]}}\n"
    )
    load_campaign(tmp_path / "campaign.yaml")
    monkeypatch.setattr(plugins, "_installed", lambda group, path: ())
    with pytest.raises(UsageError, match="the strategy 'bayes' is not installed") as refused:
        load_campaign(tmp_path / "campaign.yaml")
    assert "campaign.yaml" in str(refused.value) and "pip install buran-studies" in str(refused.value)
