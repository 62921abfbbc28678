"""The campaign files for well-known codes: checked as they are, and dry-run with stand-ins for the sources."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

import campaign_file as schema
from buran.campaign.load import load_campaign
from buran.campaign.point import Point

FOLDER = Path(__file__).resolve().parents[2] / "config" / "examples" / "codes"
FILES = sorted(FOLDER.glob("*.yaml"))
CODES = ("amg", "hpcg", "kripke", "lulesh", "minife", "quicksilver")

# Points that were measured, and the one that predictions were judged at, in published case studies.
PUBLISHED = {
    "kripke": ((8, 2, 32), (32768, 10, 160), 125, (32768, 12, 160)),
    "lulesh": ((125, 10), (729, 30), 25, (1000, 35)),
    "minife": ((64, 75), (1024, 95), 25, (2048, 100)),
    "quicksilver": ((16, 2, 10), (256, 16, 50), 125, (512, 20, 60)),
}


def with_stand_in(path: Path, folder: Path) -> Path:
    """Copy a campaign file beside an empty source, so that nothing is fetched."""
    (folder / "source").mkdir()
    (folder / "source" / "Makefile").touch()
    text, changed = re.subn(r"(?m)^  source: .*$", "  source: source", path.read_text())
    assert changed == 1
    copy = folder / path.name
    copy.write_text(text)
    return copy


def test_every_code_has_one_file_for_a_node_and_one_for_slurm() -> None:
    assert {path.stem for path in FILES} == {f"{code}{where}" for code in CODES for where in ("", "-slurm")}


@pytest.mark.parametrize("code", CODES)
def test_both_files_of_a_code_measure_the_same_program(code: str) -> None:
    here, cluster = (yaml.safe_load((FOLDER / f"{code}{where}.yaml").read_text()) for where in ("", "-slurm"))
    assert here["target"] == cluster["target"]
    assert here["parameters"].keys() == cluster["parameters"].keys()
    assert "environments" not in here and cluster["environments"]["cluster"]["launcher"] == "srun"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_are_right(path: Path, tmp_path: Path) -> None:
    data = yaml.safe_load(path.read_text())
    jsonschema.validate(data, json.loads(schema.schema_text()))
    campaign = load_campaign(with_stand_in(path, tmp_path))
    assert campaign.name == path.stem
    assert len(campaign.points) >= 20 and campaign.evaluation_points
    source = data["target"]["source"]
    assert re.fullmatch("[0-9a-f]{40}", source["revision"]) if isinstance(source, dict) else source == "Kripke"


@pytest.mark.parametrize("code", PUBLISHED)
def test_points_are_the_published_ones(code: str, tmp_path: Path) -> None:
    first, last, count, judged = PUBLISHED[code]
    campaign = load_campaign(with_stand_in(FOLDER / f"{code}-slurm.yaml", tmp_path))
    values = [tuple(point[name] for name in campaign.parameters) for point in campaign.points]
    assert (min(values), max(values), len(values)) == (first, last, count)
    assert campaign.evaluation_points == (Point.of(dict(zip(campaign.parameters, judged, strict=True))),)
    assert campaign.repetitions == 5


@pytest.mark.parametrize(
    ("code", "ranks", "words"),
    [
        ("kripke", 27, "--procs 3,3,3 --zones 24,24,24 --quad 32 --dset 8 --groups 32"),
        ("amg", 8, "-problem 1 -P 2 2 2 -n 16 16 16"),
        ("quicksilver", 1, "-I 1 -J 1 -K 1 -x 2 -y 2 -z 2 -X 2 -Y 2 -Z 2 -n 80"),
        ("quicksilver", 8, "-I 2 -J 2 -K 2 -x 4 -y 4 -z 4 -X 4 -Y 4 -Z 4 -n 640"),
        ("quicksilver", 32, "-I 4 -J 4 -K 2 -x 8 -y 8 -z 4 -X 8 -Y 8 -Z 4 -n 2560"),
        ("quicksilver", 512, "-I 8 -J 8 -K 8 -x 16 -y 16 -z 16 -X 16 -Y 16 -Z 16 -n 40960"),
    ],
)
def test_shells_work_out_how_ranks_are_arranged(code: str, ranks: int, words: str, tmp_path: Path) -> None:
    campaign = load_campaign(with_stand_in(FOLDER / f"{code}.yaml", tmp_path))
    values = {"binary": "echo", "p": str(ranks), "n": "16", "d": "4", "g": "32", "m": "2", "s": "10"}
    command = [word.fill(values) for word in campaign.run]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == words.split()


@pytest.mark.slow
@pytest.mark.mpi
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=() if "lulesh" in path.stem else pytest.mark.thorough, id=path.stem) for path in FILES],
)
def test_dry_runs(path: Path, tmp_path: Path) -> None:
    copy = with_stand_in(path, tmp_path)
    # The profile slurm would ask a Slurm for its partitions; tests/slurm has one.
    command = [sys.executable, "-m", "buran.cli", "run", str(copy), "--dry-run"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Planning iteration 0" in done.stdout + done.stderr
