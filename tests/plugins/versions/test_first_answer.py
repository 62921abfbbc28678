"""What a report begins with where a campaign is compared with an earlier version."""

from __future__ import annotations

from buran.modeling.pmnf import Model
from buran.plugins.versions.compare import compare_sides
from buran.plugins.versions.section import Versions
from buran.plugins.versions.side import Side
from buran.reporting.text import first_screen
from made_up import TARGET, answers, data_of, model, models, told


def test_a_comparison_comes_first():
    def side(name: str, work: Model, time: Model) -> Side:
        sets = {
            "time": models("time", "sec", work=time, other=model((0.1, 0, 1), smape=1)),
            "basic_blocks": models("basic_blocks", "occ", work=work, other=model((1.0, 0, 1))),
        }
        return Side(name, ("p", "n"), TARGET, sets)

    before = side("v1", model((7.0, 1, 0), (9.0, 0, 0)), model((1e-6, 1, 0), smape=3))
    after = side("v2", model((4.0, 2, 0), (7.0, 1, 0), (9.0, 0, 0)), model((1e-6, 2, 0), smape=3))
    compared = Versions("v1", compare_sides(before, after))
    said = told({"work": model((1.0, 0, 0), smape=1)}, further={"comparison": compared})
    first = answers(said, data_of(said, None))[0]
    assert first.answer == "work: from 7 p to 4 p^2"
    screen = first_screen(said, answers(said, data_of(said, None)))
    assert screen.index(first.answer) < screen.index("stop scaling?")
    assert len(screen.splitlines()) <= 23
