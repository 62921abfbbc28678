"""Pieces of the published tensor model: grid, least squares, positive factors, splines."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buran.cli import main
from buran.modeling.tensor import load_model
from buran.modeling.tensor.axes import columns_of, encode, fit_axes
from buran.modeling.tensor.published.cells import fill_cells, make_mode, predict_log_linear
from buran.modeling.tensor.published.completion import complete, complete_positive, rows_product
from buran.modeling.tensor.published.model import PublishedModel, fit_hinges


def axes_of(X, scale):
    columns = columns_of(X)
    axes = fit_axes(columns, scale, [f"x{j}" for j in range(len(columns))])
    return axes, encode(columns, axes)


@settings(max_examples=50)
@given(st.lists(st.integers(1, 5000), min_size=20, max_size=200, unique=True), st.integers(2, 40))
def test_nodes_ascend_and_hold_both_ends(values, cells):
    axes, points = axes_of(np.array(values, dtype=float)[:, None], ["log"])
    mode = make_mode(axes[0], cells)
    assert (np.diff(mode.nodes) > 0).all()
    assert mode.nodes[0] == min(values)
    place = mode.nearest(points[:, 0])
    assert place.min() >= 0 and place.max() < mode.size


def test_cells_average_times():
    axes, points = axes_of(np.array([[1.0], [1.0], [2.0]]), ["linear"])
    index, mean = fill_cells(points, np.array([1.0, 3.0, 5.0]), [make_mode(axes[0], 4)])
    assert index.tolist() == [[0], [1]] and mean.tolist() == [2.0, 5.0]


def test_least_squares_completes_a_low_rank_tensor():
    random = np.random.default_rng(0)
    true = [random.standard_normal((8, 2)) for _ in range(3)]
    everywhere = np.stack([p.ravel() for p in np.indices((8, 8, 8))], axis=1)
    values = rows_product(true, everywhere).sum(axis=1)
    seen = random.permutation(512)[:300]
    found = complete(everywhere[seen], values[seen], (8, 8, 8), 3, 1e-6, 300, random)
    rest = rows_product(found, everywhere).sum(axis=1) - values
    assert np.sqrt(np.mean(rest**2)) < 0.05 * values.std()


def test_rows_without_elements_stay_zero():
    found = complete(np.array([[0, 0], [2, 1]]), np.ones(2), (3, 2), 1, 1e-3, 20, np.random.default_rng(0))
    assert found[0][1] == 0


def test_positive_factors_stay_positive_and_fit():
    random = np.random.default_rng(0)
    true = [random.uniform(0.5, 2, (6, 2)) for _ in range(3)]
    index = np.stack([p.ravel() for p in np.indices((6, 6, 6))], axis=1)
    times = 1e-3 * rows_product(true, index).sum(axis=1)
    found = complete_positive(index, times, (6, 6, 6), 2, 1e-7, random)
    assert min(f.min() for f in found) > 0
    gap = np.log(rows_product(found, index).sum(axis=1) / times)
    assert np.abs(gap).mean() < 0.05


def test_hinges_continue_a_line():
    x = np.linspace(0, 4, 30)
    spline = fit_hinges(x, 2 * x + 1)
    assert spline(np.array([8.0])) == pytest.approx([17.0])


def test_hinges_find_a_bend():
    x = np.linspace(0, 4, 40)
    spline = fit_hinges(x, np.maximum(0, x - 2))
    assert spline(np.array([1.0, 3.0])) == pytest.approx([0.0, 1.0], abs=0.05)


def test_between_grid_points_times_are_interpolated():
    axes, _ = axes_of(np.linspace(1, 5, 41)[:, None], ["linear"])
    mode = make_mode(axes[0], 5)
    factors = [np.log(np.array([[1.0], [2.0], [3.0], [4.0], [5.0]]))]
    assert predict_log_linear(np.array([[2.7]]), [mode], factors) == pytest.approx([2.7])


def test_the_command_takes_the_preset(tmp_path, capsys):
    (tmp_path / "runs.csv").write_text("n,time\n" + "\n".join(f"{n},{n / 8}" for n in range(1, 40)))
    model = ["model", "--kind", "cpr", str(tmp_path / "runs.csv"), "-o", str(tmp_path / "m.npz"), "--preset"]
    assert main([*model, "paper"]) == 2
    assert "published" in capsys.readouterr().err
    assert main([*model, "published"]) == 0
    assert isinstance(load_model(tmp_path / "m.npz")[0].inner, PublishedModel)
    assert "within a factor of" in capsys.readouterr().out
    assert main(["model", str(tmp_path / "runs.csv"), "--preset", "published"]) == 2
    assert "add --kind cpr" in capsys.readouterr().err
    (tmp_path / "runs.csv").write_text("n,time\n1,1\n2,2\n3,3\n")
    assert main([*model, "published"]) == 0
    assert "too few observations" in capsys.readouterr().out
