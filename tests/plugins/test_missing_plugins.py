"""The package without one of its plug-ins, and without any: the core works, and what is missing is named in words."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from buran.extensions import PLUGINS

ROOT = Path(__file__).parents[2]
ASSETS = ("Snakefile", "rules", "scripts", "profiles", "config", "examples", "workflow")
NAMES = sorted(path.parent.name for path in PLUGINS.glob("*/__init__.py"))

CAMPAIGN = """
name: small
program: {source: ".", build: "{mpicc} -o a.out a.c", binary: a.out, run: "{binary} {p}"}
parameters: {p: {role: ranks, values: [1, 2, 4, 8, 16]}}
"""
# What a plug-in alone can do, and the words by which the core says that it is missing.
FEATURES = {
    "crate": ("convert --crate results/small crate", "the option 'convert.crate' is not installed"),
    "efficiency": ("check scaled.yaml", "the key 'scaling' is not known here"),
    "energy": ("check joules.yaml", "the key 'energy' is not known here"),
    "formats": ("convert --from caliper stencil.txt out.json", "the format 'caliper' is not installed"),
    "history": ("history", "the verb 'history' is not installed"),
    "imports": ("check imports.yaml", "the key 'measurements' is not known here"),
    "memory": ("check caches.yaml", "the key 'memory' is not known here"),
    "project": ("init new --from .", "the option 'init.from' is not installed"),
    "versions": ("check versions.yaml", "the key 'compare_with' is not known here"),
    "output": ("check printed.yaml", "the key 'sanity' is not known here"),
    "systems": ("check named.yaml", "the key 'system' is not known here"),
    "simgrid": ("check simulated.yaml", "the key 'machine' is not known here"),
    "scorep": ("check scorep.yaml", "the backend 'scorep' is not installed"),
    "schedulers": ("run campaign.yaml --profile pbs --dry-run", "the scheduler 'pbs' is not installed"),
}
FURTHER = {
    "energy": (("check counted-joules.yaml", "'energy' is not known here"),),
    "formats": (
        ("check measured.yaml", "the key 'measure' is not known here"),
        ("convert stencil.txt out.parquet", "the writer 'parquet' is not installed"),
    ),
    "history": (("check every-version.yaml", "the key 'history' is not known here"),),
    "memory": (
        ("check misses.yaml", "'misses_level_1' is not known here"),
        ("predict model.json --machine other.json", "the option 'predict.machine' is not installed"),
        ("doctor --calibrate machine.json", "the option 'doctor.calibrate' is not installed"),
    ),
    "output": (("check merit.yaml", "the key 'figures' is not known here"),),
    "schedulers": tuple(
        (f"run campaign.yaml --profile {name} --dry-run", f"the scheduler {name!r} is not installed")
        for name in ("grid-engine", "lsf", "flux")
    ),
    "scorep": (("check scorep-keys.yaml", "the key 'scorep' is not known here"),),
    "systems": (("doctor --write-system desk", "the option 'doctor.write-system' is not installed"),),
    "versions": (("report campaign.yaml --compare before", "the option 'report.compare' is not installed"),),
}
CODE = """
import sys
from pathlib import Path
from buran.cli import main
from buran.extensions import PLUGINS
assert PLUGINS == Path("src/buran/plugins").resolve(), PLUGINS
for words in ("--help", "check campaign.yaml", "model stencil.txt", "convert stencil.txt copy.json"):
    code = main(words.split())
    assert code == 0, (words, code)
print("THE CORE WORKS")
for line in sys.argv[1:]:
    print("CODE", main(line.split()))
"""


def test_the_missing_feature_of_every_plugin_is_tried() -> None:
    assert sorted(FEATURES) == NAMES


@pytest.mark.parametrize("missing", [*([name] for name in NAMES), NAMES], ids=[*NAMES, "all"])
def test_the_core_works_without_plugins(tmp_path: Path, missing: list[str]) -> None:
    shutil.copytree(PLUGINS.parent, tmp_path / "src" / "buran", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ASSETS:
        (tmp_path / name).symlink_to(ROOT / name)
    for name in missing:
        shutil.rmtree(tmp_path / "src" / "buran" / "plugins" / name)
    (tmp_path / "campaign.yaml").write_text(CAMPAIGN)
    (tmp_path / "joules.yaml").write_text(CAMPAIGN + "energy: true\n")
    (tmp_path / "counted-joules.yaml").write_text(CAMPAIGN + "metrics: [time, energy]\n")
    (tmp_path / "every-version.yaml").write_text(CAMPAIGN + "history: true\n")
    (tmp_path / "merit.yaml").write_text(CAMPAIGN + "figures: {rate: 'rate (\\S+)'}\n")
    (tmp_path / "scorep-keys.yaml").write_text(CAMPAIGN + "scorep: {process_memory_mb: 64}\n")
    (tmp_path / "named.yaml").write_text(CAMPAIGN + "system: hawk\n")
    (tmp_path / "simulated.yaml").write_text(CAMPAIGN + "environments: {desk: {machine: {nodes: 4}}}\n")
    (tmp_path / "scorep.yaml").write_text(CAMPAIGN + "backend: scorep\n")
    (tmp_path / "scaled.yaml").write_text(CAMPAIGN + "scaling: weak\n")
    (tmp_path / "caches.yaml").write_text(CAMPAIGN + "memory: {caches_kib: [32]}\n")
    (tmp_path / "misses.yaml").write_text(CAMPAIGN + "metrics: [time, visits, misses_level_1]\n")
    (tmp_path / "imports.yaml").write_text(CAMPAIGN + "measurements: [{path: old}]\n")
    (tmp_path / "printed.yaml").write_text(CAMPAIGN + "sanity: {found: [PASSED]}\n")
    (tmp_path / "measured.yaml").write_text(CAMPAIGN + "measure: perf\n")
    (tmp_path / "versions.yaml").write_text(CAMPAIGN + "compare_with: before\n")
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    shutil.copy(ROOT / "tests" / "data" / "extrap" / "stencil.txt", tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    tried = [pair for name in missing for pair in (FEATURES[name], *FURTHER.get(name, ()))]
    command = [sys.executable, "-c", CODE, *(call for call, _ in tried)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "THE CORE WORKS" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("CODE 2") == len(tried), done.stdout + done.stderr
    said = " ".join(done.stderr.split())
    assert "Traceback" not in said
    for words in (*(words for _, words in tried), *(f"it belongs to the plug-in '{name}'" for name in missing)):
        assert words in said, said
