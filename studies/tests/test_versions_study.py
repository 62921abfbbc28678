"""The study of versions: every kind of pair is what it is called, changes are found, none is invented."""

from __future__ import annotations

from pathlib import Path

import pytest

from buran_studies.evaluation.run import Run
from buran_studies.evaluation.study import Settings
from buran_studies.versions import study
from buran_studies.versions.pairs import CHANGED, KINDS, PROGRAMS, SAME, pair, points

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_pairs_differ_in_what_they_say_and_depend_on_the_seed() -> None:
    assert points()[:, 0].max() <= 6
    for number in range(len(KINDS) * len(PROGRAMS)):
        made = pair(number, 3, EXAMPLES)
        assert made == pair(number, 3, EXAMPLES)
        paths = {name for name in {**made.before, **made.after} if made.before.get(name) != made.after.get(name)}
        if made.kind in CHANGED:
            assert paths == {made.call_path} and made.growth
        elif made.kind == "reformatted":
            assert not paths and list(made.before) == list(reversed(made.after))
        else:
            assert paths and list(made.before.values()) == list(made.after.values())


@pytest.mark.thorough
def test_changes_are_found_and_none_is_invented(tmp_path: Path) -> None:
    run = Run.create(Settings("versions", quick=True, seed=1, draws=8), tmp_path)
    run.work_on_all(lambda done, of: None)
    figures = {figure.name: figure for figure in run.summarise().figures}
    assert figures["changes found"].value == 100 and figures["changes found"].samples == len(CHANGED)
    assert figures["pairs with a change that is none"].value == 0
    assert figures["pairs that count the same, called the same"].value == 100
    assert figures["pairs that count the same, called the same"].samples == len(SAME)


def test_shards_are_the_pairs_in_turn() -> None:
    assert [shard["pairs"] for shard in study.shards(Settings("versions", draws=20))] == [8, 8, 4]
    assert sum(shard["pairs"] for shard in study.shards(Settings("versions"))) == 40


@pytest.mark.parametrize("number", [3, 4])
def test_messages_and_barriers_are_named_by_their_metric(number: int) -> None:
    made = pair(number, 1, EXAMPLES)
    assert made.metric == {"message doubled": "bytes_sent", "barrier added": "visits"}[made.kind]
