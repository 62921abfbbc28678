"""Which build carries which filter: one each, one for all, one for some."""

from types import SimpleNamespace

import pytest

from buran.campaign.plan import BuildSpec, Mode
from buran.campaign.point import Point
from buran.steps.plan import _build_spec

POINT = Point.of({"p": 1})


def hooks(filtering, filters, text, mode=Mode.TIME):
    refinement = SimpleNamespace(filtering=filtering, rebuild_every=2)
    session = SimpleNamespace(
        campaign=SimpleNamespace(config=SimpleNamespace(refinement=refinement)),
        target=SimpleNamespace(build_spec=lambda mode, text, point, hooks: BuildSpec("t", mode, text, (), hooks)),
    )
    spec = _build_spec(session, filters, mode, text, POINT)
    assert BuildSpec.from_json(spec.to_json()) == spec
    return spec.hooks


@pytest.mark.parametrize(
    ("filtering", "expected"),
    [
        ("compile", [None, None, None, None]),
        ("run", [None, "", "", ""]),
        ("hybrid", [None, "", None, "B"]),  # the third filter, B, has a build of its own again
    ],
)
def test_filters_and_their_builds(filtering, expected):
    filters = ["", "A", "B", "C"]
    assert [hooks(filtering, filters[:i], text) for i, text in enumerate(filters)] == expected
    # a filter that was decided before keeps its build
    assert hooks(filtering, ["", "A", "A", "B"], "A") == expected[1]


def test_other_builds_are_never_filtered_at_run_time():
    assert hooks("run", [""], "A", Mode.EFFORT) is None


def test_a_filter_at_run_time_is_another_variant_of_the_same_program():
    plain, filtered = BuildSpec("t", Mode.TIME, ""), BuildSpec("t", Mode.TIME, "A", (), "")
    assert filtered.compiled == plain and plain.compiled is plain
    assert len({plain.hash, filtered.hash, BuildSpec("t", Mode.TIME, "A").hash}) == 3
