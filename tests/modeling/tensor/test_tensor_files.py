"""Model files, and the commands around them."""

import json

import numpy as np
import pytest

from buran.cli import main
from buran.errors import FormatError
from buran.modeling.tensor import CPRegressor, load_model
from buran.modeling.tensor.axes import columns_of
from buran.modeling.tensor.model import to_bytes


def table(count=300):
    random = np.random.default_rng(0)
    X = np.empty((count, 3), dtype=object)
    X[:, 0] = np.rint(np.exp(random.uniform(3, 7, count)))
    X[:, 1] = 2.0 ** random.integers(0, 5, count)
    X[:, 2] = np.array(["cg", "gmres", "sor"], dtype=object)[random.integers(0, 3, count)]
    cost = np.array([{"cg": 1.0, "gmres": 2.0, "sor": 5.0}[each] for each in X[:, 2]])
    return X, 1e-3 * X[:, 0].astype(float) * cost / X[:, 1].astype(float)


@pytest.fixture(scope="module")
def fitted():
    X, y = table()
    return CPRegressor(names=["n", "p", "solver"], extrapolate=["n"], rank=2, cells=5).fit(X, y)


@pytest.mark.parametrize("preset", ["default", "published"])
@pytest.mark.parametrize("extrapolate", [[], ["n"]])
def test_a_model_survives_its_file(tmp_path, preset, extrapolate):
    X, y = table(120)
    model = CPRegressor(preset, names=["n", "p", "solver"], extrapolate=extrapolate, rank=2, cells=5).fit(X, y)
    model.save(tmp_path / "m.npz")
    again, notes = load_model(tmp_path / "m.npz")
    found = again.predict(columns_of(X))[0]
    assert (found == model.predict(X)).all()
    assert notes == {}
    if extrapolate:
        far = X[:5].copy()
        far[:, 0] = 4 * X[:, 0].max()
        assert (again.predict(columns_of(far))[0] == model.predict(far)).all()


def test_a_file_holds_no_pickle(fitted, tmp_path):
    fitted.save(tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz", allow_pickle=False) as file:
        assert all(file[name].dtype != object for name in file.files)


def test_what_is_no_model_is_refused(fitted, tmp_path):
    path = tmp_path / "m.npz"
    with pytest.raises(FormatError, match="cannot read"):
        load_model(path)
    path.write_text("nothing")
    with pytest.raises(FormatError):
        load_model(path)
    np.savez(path, a=np.arange(3))
    with pytest.raises(FormatError, match="no tensor model"):
        load_model(path)
    data = to_bytes(fitted.model_)
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(FormatError):
        load_model(path)


@pytest.mark.parametrize(("version", "words"), [(99, "newer"), (1, "older")])
def test_another_version_is_refused(fitted, tmp_path, version, words):
    fitted.save(tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz") as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays["header"].tobytes()) | {"version": version}
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(tmp_path / "m.npz", **arrays)
    with pytest.raises(FormatError, match=words) as caught:
        load_model(tmp_path / "m.npz")
    assert caught.value.hint


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predict")
    X, y = table(150)
    lines = ["n,p,solver,time", *(",".join(map(str, [*row, time])) for row, time in zip(X, y, strict=True))]
    (folder / "runs.csv").write_text("\n".join(lines))
    assert main(["model", "--kind", "cpr", str(folder / "runs.csv"), "-o", str(folder / "m.npz")]) == 0
    return folder / "m.npz"


def test_predict_points(model_file, tmp_path, capsys):
    capsys.readouterr()
    (tmp_path / "points.csv").write_text("solver,n,p\ncg,200,4\n")
    code = main(["predict", str(model_file), str(tmp_path / "points.csv"), "--at", "n=400,p=4,solver=cg", "--json"])
    assert code == 0
    first, second = json.loads(capsys.readouterr().out)["predictions"]
    assert first["predicted"] == pytest.approx(0.1, rel=0.3)
    assert second["predicted"] == pytest.approx(0.05, rel=0.3)
    assert first["lower"] < first["predicted"] < first["upper"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no points"),
        (["--at", "n=1e9,p=4,solver=cg"], "outside"),
        (["--at", "n=200,p=4,solver=lu"], "never measured"),
        (["--at", "n=200,p=4"], "no value of solver"),
        (["--at", "n=200,p"], "no point"),
        (["--at", "n=200,p=4,solver=cg", "--level", "2"], "level"),
    ],
)
def test_mistakes_are_told(model_file, arguments, words, capsys):
    assert main(["predict", str(model_file), *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "a,a\n1,2\n", "a,time\n1\n", "a,time\n1,fast\n", "a,time\n1,0\n2,1\n"])
def test_tables_that_are_none(text, tmp_path, capsys):
    (tmp_path / "t.csv").write_text(text)
    assert main(["model", "--kind", "cpr", str(tmp_path / "t.csv"), "-o", str(tmp_path / "m")]) == 2
    assert "error" in capsys.readouterr().err
