"""``buran correct`` and its tables."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from truths import PLACES, contended

from buran.cli import main
from buran.cli.model import holds
from buran.cli.predict import of_corrected
from buran.cli.tables import read_times
from buran.errors import BuranError
from buran.modeling.correction import load_corrected
from buran.modeling.correction.corrected import render

MODEL = """
name: test
expression: 10 * (latency + transfer)
components: {latency: alpha * p, transfer: beta * n**2}
parameters:
  alpha: {value: 1.0e-5, lower: 1.0e-7, upper: 1.0e-3, log: true, unit: s}
  beta: {value: 1.0e-8, lower: 1.0e-10, upper: 1.0e-6, log: true, unit: s/word**2}
variables: {p: {scale: true, unit: 1}, n: {unit: word}}
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    model, data = tmp_path / "model.yaml", tmp_path / "data.csv"
    model.write_text(MODEL)
    rows = "".join(f"{p},{n},{t!r}\n" for (p, n), t in zip(PLACES.tolist(), contended(PLACES).tolist(), strict=True))
    data.write_text("p,n,time\n" + rows)
    return model, data


def test_text_names_formula_and_threshold(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    model, data = files
    out = data.with_name("out.json")
    assert main(["correct", str(model), str(data), "--case", "terms", "--seed", "3", "-o", str(out)]) == 0
    text = capsys.readouterr().out
    found = load_corrected(out)
    assert found.report.seed == 3 and str(found.report.thresholds[0]) in text
    assert render(found) in text and found.report.reason in text


@pytest.mark.parametrize("style", ["latex", "json"])
def test_other_formats(files: tuple[Path, Path], style: str, capsys: pytest.CaptureFixture[str]) -> None:
    model, data = files
    assert main(["correct", str(model), str(data), "--case", "terms", "--format", style]) == 0
    text = capsys.readouterr().out
    if style == "json":
        assert json.loads(text)["kind"] == "corrected"
    else:
        assert "t = " in text


def test_measurements_of_a_campaign(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    model, _ = files
    lines = [
        json.dumps({"params": {"p": p, "n": n}, "callpath": path, "metric": "time", "value": share * t})
        for (p, n), t in zip(PLACES.tolist(), contended(PLACES).tolist(), strict=True)
        for path, share in (("main", 0.0), ("main->solve", 1.0))
    ]
    table = model.with_name("table.jsonl")
    table.write_text("\n".join(lines))
    for more in ([], ["--call-path", "solve"]):
        assert main(["correct", str(model), str(table), "--case", "terms", "--json", *more]) == 0
        assert not json.loads(capsys.readouterr().out)["report"]["refused"]
    assert main(["correct", str(model), str(table), "--call-path", "solv"]) == 2
    assert "'solv'" in capsys.readouterr().err
    assert main(["correct", str(model), str(table), "--value", "x"]) == 2


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--seed", "-1"], "-1"),
        (["--preset", "paper"], "'paper'"),
        (["--preset", "published", "--case", "terms"], "case terms"),
        (["--preset", "published", "--trials", "0"], "one trial"),
        (["--trials", "3"], "--trials"),
        (["--value", "tim"], "'tim'"),
    ],
)
def test_wrong_requests(
    files: tuple[Path, Path], arguments: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["correct", *map(str, files), *arguments]) == 2
    assert what in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("p,n,time\n1,2\n", "fields"),
        ("p,n,time\n1,x,3\n", "no number"),
        ("p,n,time\n", "one row"),
        ("p,n,t\n1,2,3\n", "is unknown"),
        ("p,time\n1,2\n", "no column 'n'"),
    ],
)
def test_tables_are_checked(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "data.csv"
    path.write_text(text)
    with pytest.raises(BuranError, match=what):
        read_times(path, ["p", "n"])


def test_an_empty_time_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("time,p,more\n1.5,2,a\n,4,b\n")
    points, values = read_times(path, ["p"])
    assert points["p"].tolist() == [2, 4] and values[0] == 1.5 and np.isnan(values[1])


def test_predict_takes_corrected_models(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    model, data = files
    out = data.with_name("out.json")
    assert main(["correct", str(model), str(data), "--case", "terms", "-o", str(out)]) == 0
    capsys.readouterr()
    assert main(["predict", str(out), "--at", "p=32,n=400", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["predictions"][0]
    assert found["p"] == 32 and found["predicted"] == pytest.approx(contended(np.array([[32.0, 400.0]]), 0)[0], rel=0.1)
    assert main(["predict", str(out), str(data.with_name("none.csv"))]) == 2
    assert main(["predict", str(out), "--at", "p=32"]) == 2
    assert "value of n" in capsys.readouterr().err
    assert main(["predict", str(out), "--at", "p=4096,n=400"]) == 0
    assert "False" in capsys.readouterr().out


def test_predictions_of_a_written_model(files: tuple[Path, Path]) -> None:
    model, data = files
    out = data.with_name("out.json")
    assert not any(holds(each, "buran-corrected/") for each in (out, data))
    assert main(["correct", str(model), str(data), "--case", "terms", "-o", str(out), "--json"]) == 0
    assert holds(out, "buran-corrected/")
    header, rows = of_corrected(out, [{"n": 400.0, "p": 32}, {"p": 4096, "n": 400}])
    assert header[:6] == ["p", "n", "predicted", "lower", "upper", "correction"]
    assert rows[0][2] == pytest.approx(contended(np.array([[32.0, 400.0]]), 0)[0], rel=0.1)
    assert [row[6] for row in rows] == [True, False]
    assert rows[0][3] < rows[0][2] < rows[0][4] and rows[1][4] / rows[1][3] > rows[0][4] / rows[0][3]
    for wrong, what in (([], "no points"), ([{"p": 1}], "no value of n"), ([{"p": 1, "n": "x"}], "are numbers")):
        with pytest.raises(BuranError, match=what):
            of_corrected(out, wrong)


def test_a_models_file_is_a_base_model(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    _, data = files
    table, models = data.with_name("table.jsonl"), data.with_name("models.json")
    lines = [
        json.dumps({"params": {"p": p, "n": n}, "callpath": "main", "metric": "time", "value": 1e-4 * p + 1e-7 * n**2})
        for p, n in PLACES.tolist()
    ]
    table.write_text("\n".join(lines))
    assert main(["model", str(table), "--json", "-o", str(models)]) == 0
    assert main(["correct", str(models), str(data), "--case", "terms", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["base"]["expression"].startswith("constant") or "term1" in found["base"]["expression"]
    assert main(["correct", str(models), str(data), "--metric", "visits"]) == 2
    assert "'visits'" in capsys.readouterr().err
