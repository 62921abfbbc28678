"""The section ``memory`` of campaign files: its mistakes, and what each key decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from campaign_files import writer
from test_identity import folder, identities, loaded
from test_load import mistakes_of, whole

from buran.campaign.identity import Decides, decides
from buran.campaign.mistakes import spelled
from buran.plugins.memory.keys import MemoryKeys
from buran.plugins.memory.machine_file import MachineFile
from buran.profiles import metrics

__all__ = ["folder"]
SAMPLED = ("time", "visits", "misses_level_2")
MACHINE = {
    "topology": "crossbar", "nodes": 64, "cores_per_node": 1, "bandwidth_gb_s": 10.0, "latency_us": 1.0,
    "seconds_per_block": 1e-9,
}  # fmt: skip
SIMULATED = {"environments": {"local": {"machine": MACHINE}}}
BAD: list[tuple[str, dict[str, Any], str, str]] = [
    # (what, changes, key, words of the message)
    ("misses on no machine", {"metrics": [*SAMPLED], **SIMULATED}, "metrics[2]", "simulated machine"),
    (
        "sampled elsewhere",
        {"metrics": [*SAMPLED], "memory": {"points": [{"p": 3, "n": 10}]}},
        "memory.points[0]",
        "not one of the modelling points",
    ),
    ("sampled for nothing", {"memory": {"caches_kib": [32]}}, "memory", "no metric asks"),
    ("a machine for nothing", {"memory": {"machine": "machine.json"}}, "memory", "no metric asks"),
    (
        "caches farthest first",
        {"metrics": [*SAMPLED], "memory": {"caches_kib": [64, 32]}},
        "memory.caches_kib",
        "larger",
    ),
    *(
        (f"{ways} ways", {"metrics": [*SAMPLED], "memory": {"caches_kib": [48, 1024], "ways": ways}}, at, said)
        for ways, at, said in (
            ([8, 0], "memory.ways[1]", "greater than or equal to 1"),
            ([7], "memory.ways[0]", "7 ways do not divide the 768 lines of 48 KiB"),
            ([12, 32768], "memory.ways[1]", "that many ways"),
            ([12, 16, 16], "memory.ways[2]", "nothing names the size"),
            ([], "memory.ways", "empty"),
        )
    ),
    ("ways of unknown sizes", {"metrics": [*SAMPLED], "memory": {"ways": [8]}}, "memory.ways[0]", "memory.caches_kib"),
    ("no cache", {"metrics": [*SAMPLED], "memory": {"caches_kib": []}}, "memory.caches_kib", "empty"),
    ("no such cache", {"metrics": [*SAMPLED], "memory": {"caches_kib": [32]}}, "metrics[2]", "is of another one"),
    ("no machine", {"metrics": [*SAMPLED], "memory": {"machine": "none.json"}}, "memory.machine", "none.json: "),
]


@pytest.mark.parametrize(("changes", "key", "words"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_mistakes_say_where_and_what(tmp_path: Path, changes: dict[str, Any], key: str, words: str) -> None:
    found = mistakes_of(writer(tmp_path)(**changes))
    assert any(spelled(mistake.path) == key and words in whole(mistake) for mistake in found), found


@pytest.mark.parametrize(
    ("key", "value", "needed"),
    [
        ("points", [{"n": 10, "p": 4}], {}),
        ("caches_kib", [32.0, 1024.0], {}),
        ("ways", [8, 16], {"memory.caches_kib": [32.0, 1024.0]}),
        ("machine", "machine.json", {}),
    ],
)
def test_each_key_changes_the_question_alone(folder: Path, key: str, value: object, needed: dict[str, Any]) -> None:
    level = {
        "shared_by": 1,
        "latency_s": 1,
        "latency_busy_s": 1,
        "gather_s": 1,
        "gather_busy_s": 1,
        "bandwidth": 1,
        "bandwidth_busy": 1,
    }
    machine = {
        **dict.fromkeys(("host", "cpu", "kernel", "compiler", "date"), ""), "cores": 1, "flops": 1, "flops_busy": 1,
        "codes": {}, "spread": 0, "levels": [{"bytes": 32768, **level}, {"bytes": None, **level}],
    }  # fmt: skip
    (folder / "machine.json").write_text(json.dumps({"schema": MachineFile.schema_read, **machine}))
    needed = {"metrics": ["time", "visits", "misses_level_1"], **needed}
    before, after = (identities(loaded(folder, each)) for each in (needed, {**needed, f"memory.{key}": value}))
    assert decides(MemoryKeys.model_fields[key]) in (Decides.PLAN, Decides.ANALYSIS)
    assert (before[0], before[2]) == (after[0], after[2]) and before[1] != after[1]
    path = folder / "machine.json"
    path.write_text(path.read_text().replace('"cores": 1', '"cores": 2'))
    same = identities(loaded(folder, {**needed, f"memory.{key}": value})) == after
    assert same is (key != "machine")


def test_misses_are_modelled_from_runs_that_sample() -> None:
    assert metrics.sampled(["time", "misses_level_2", "flops"]) == ("misses_level_2",)
    assert metrics.counted(["misses_level_2"]) == metrics.uncounted(["misses_level_2"]) == ()
    assert not metrics.noise_resilient(["misses_level_2", "first_touches"])
