"""A value that is added to a campaign: what is new is planned, said with its cost, and measured."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from buran.cli import main
from buran.files import not_synced
from buran.measurement.store import ledger
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import opened


def test_lines_measure_what_is_added_and_every_verb_says_the_same_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, values = str(tmp_path / "campaign.yaml"), [10, 14, 20, 28, 40]
    made = []
    for sizes in (values, [*values, 56]):
        session = opened(
            tmp_path,
            parameters={"p": {"role": "ranks", "values": [2, 4]}, "n": {"role": "size", "values": sizes}},
            metrics=["time", "visits"],
            strategy={"name": "lines"},
            target={"p": 16, "n": 80},
            refinement={"enabled": False},
        )
        capsys.readouterr()
        assert main(["plan", file]) == 0
        plan, ahead = re.findall(r"expected cost: ([^(\n]*\w)", capsys.readouterr().out)
        assert plan == ahead
        assert main(["plan", file, "--json"]) == 0
        estimate = json.loads(capsys.readouterr().out)["next"]
        with not_synced():
            carry_out(session)
        runs = ledger.read(session.layout.store)
        new = [entry for entry in runs if entry not in made]
        if made:
            assert all("n=56" in entry.question[1] for entry in new) and new and estimate["runs"] == len(new)
            assert 0 < estimate["next_core_hours"] == pytest.approx(sum(e.cost_core_hours for e in new), rel=0.5)
        made = runs
