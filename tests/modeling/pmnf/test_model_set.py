"""Models files."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from buran.errors import FormatError
from buran.files import read_json, write_json
from buran.modeling.fit import fit_models
from buran.modeling.pmnf import ModelSet, read_models, write_models

POINTS = np.array([[4.0], [8.0], [16.0], [32.0]])


@pytest.fixture
def models() -> ModelSet:
    rng = np.random.default_rng(1)
    x = POINTS[:, 0]
    values = np.stack([x**1.5, np.full(4, np.nan), np.full(4, 3.0), rng.random(4)])
    fit = fit_models(POINTS, values)
    paths = ("main", "main->a", "main->b", "main->b->MPI_Send")
    return ModelSet(("p",), "time", "sec", paths, fit.models, "mean", "median", tuple(map(tuple, POINTS.tolist())))


def test_a_file_gives_back_what_was_written(models, tmp_path):
    file = tmp_path / "new" / "models.json"
    write_models(file, [models])
    (again,) = read_models(file)
    assert again.call_paths == models.call_paths
    assert again.points == models.points
    assert [m and m.function for m in again.models] == [m and m.function for m in models.models]
    assert again.to_json() == models.to_json()
    at = np.array([[64.0]])
    assert again.predict(at) == pytest.approx(models.predict(at), nan_ok=True)
    assert [path.name for path in file.parent.iterdir()] == ["models.json"]


def test_each_call_path_has_a_line(models, tmp_path):
    write_models(tmp_path / "m.json", [models])
    lines = (tmp_path / "m.json").read_text().splitlines()
    for path in models.call_paths:
        (line,) = (line for line in lines if f'"call_path": "{path}"' in line)
        assert json.loads(line.rstrip(","))["call_path"] == path


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.none() | st.integers(0, 4),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_json_is_the_same_at_any_depth(tmp_path, value, depth):
    write_json(tmp_path / "any.json", value, depth)
    assert read_json(tmp_path / "any.json") == value


def test_it_is_plain_json_without_nan(models, tmp_path):
    write_models(tmp_path / "m.json", [models])
    text = (tmp_path / "m.json").read_text()
    assert "NaN" not in text
    assert json.loads(text)["metrics"][0]["call_paths"][1]["model"] is None
    assert '"3/2"' in text


def first_factor(data):
    return data["metrics"][0]["call_paths"][0]["model"]["function"]["terms"][0]["factors"][0]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data: data.update(schema="buran-models/0"), "schema is 'buran-models/0'"),
        (lambda data: data["metrics"][0].pop("unit"), "missing key 'unit'"),
        (lambda data: first_factor(data).update(exponent="1/0"), "1, 0"),
        (lambda data: first_factor(data).update(parameter=4), "does not exist"),
        (lambda data: data.update(metrics=[1]), "not subscriptable"),
    ],
)
def test_a_damaged_file_is_refused_by_name(models, tmp_path, change, why):
    file = tmp_path / "m.json"
    write_models(file, [models])
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))
    with pytest.raises(FormatError) as caught:
        read_models(file)
    assert why in str(caught.value)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe"])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "m.json").write_bytes(content)
    with pytest.raises(FormatError):
        read_models(tmp_path / "m.json")
    with pytest.raises(FormatError):
        read_models(tmp_path / "absent.json")


def test_models_and_call_paths_must_match():
    with pytest.raises(ValueError, match=r"0 .* 1 "):
        ModelSet(("p",), "time", "sec", ("main",), (), "mean", "median", ())
