"""Which build carries which filter: one each, one for all, one for some."""

from types import SimpleNamespace

import pytest

from buran.campaign.plan import BuildSpec, Mode
from buran.campaign.point import Point
from buran.campaign.records import BuildOutcome, Status
from buran.campaign.sections import RefinementKeys
from buran.campaign.strategies import abilities_of
from buran.errors import BuildError
from buran.instrumentation.filter_file import format_filter, only
from buran.instrumentation.start import EVERYTHING
from buran.measurement.toolchain.static_features import StaticFeatures, StaticFunction
from buran.planning.question import Candidate, Question
from buran.wording import Category
from buran.workflow.history import History
from buran.workflow.plan import begins_with_pilot
from buran.workflow.refine import _published, _started, start_build, static_features

POINT = Point.of({"p": 1})


def hooks(rebuild_every, filters, text, mode=Mode.TIME):
    table = {POINT: Candidate(BuildSpec("t", Mode.VANILLA), 1)}
    question = SimpleNamespace(table=table, rebuild_every=rebuild_every, filters=filters)
    spec = Question.build(question, mode, text, POINT)
    assert BuildSpec.from_json(spec.to_json()) == spec
    return spec.hooks


@pytest.mark.parametrize(
    ("rebuild_every", "expected"),
    [
        (1, [None, None, None, None]),
        (0, [None, "", "", ""]),
        (2, [None, "", None, "B"]),  # the third filter, B, has a build of its own again
    ],
)
def test_filters_and_their_builds(rebuild_every, expected):
    filters = ["", "A", "B", "C"]
    assert [hooks(rebuild_every, filters[:i], text) for i, text in enumerate(filters)] == expected
    # a filter that was decided before keeps its build
    assert hooks(rebuild_every, ["", "A", "A", "B"], "A") == expected[1]


def test_other_builds_are_never_filtered_at_run_time():
    assert hooks(0, [""], "A", Mode.EFFORT) is None


def test_a_filter_at_run_time_is_another_variant_of_the_same_program():
    plain, filtered = BuildSpec("t", Mode.TIME, ""), BuildSpec("t", Mode.TIME, "A", (), "")
    assert filtered.compiled == plain and plain.compiled is plain
    assert len({plain.hash, filtered.hash, BuildSpec("t", Mode.TIME, "A").hash}) == 3


def starting(tmp_path, **refinement):
    """Return a campaign that chooses the functions it starts with, and where its build for that is noted."""
    pointer = tmp_path / "build.json"
    layout = SimpleNamespace(build_pointer=lambda name: pointer, build=lambda name: tmp_path)
    config = SimpleNamespace(refinement=RefinementKeys(**refinement))
    path = tmp_path / "campaign.yaml"
    campaign = SimpleNamespace(config=config, points=(POINT,), path=path, environment_choice=None)
    target = SimpleNamespace(build_spec=lambda mode, text, point: BuildSpec("t", mode, text))
    return SimpleNamespace(campaign=campaign, target=target, layout=layout, earlier=None), pointer


def test_hooks_in_everything_need_no_call_graph(tmp_path):
    session, _ = starting(tmp_path, start="everything")
    assert start_build(session) is None and _started(History(session, "", 0)) == EVERYTHING
    assert start_build(starting(tmp_path)[0]) is None
    assert start_build(starting(tmp_path, start="loops", enabled=False)[0]) is None


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        ((Status.MEASURED, None), "only compiler plugins report it"),
        ((Status.FAILED, "no rule to make target"), "no rule to make target"),
    ],
)
def test_without_a_call_graph_nothing_can_be_chosen_from_it(outcome, why, tmp_path):
    session, pointer = starting(tmp_path, start="statements")
    spec = start_build(session)
    assert spec is not None and spec.mode is Mode.EFFORT and spec.filter_text == ""
    BuildOutcome(spec.hash, spec.mode, *outcome, folder="").write(pointer)
    with pytest.raises(BuildError, match="call graph") as caught:
        _started(History(session, "", 0))
    assert why in str(caught.value)


def test_campaigns_that_choose_their_start_begin_with_pilots():
    assert not begins_with_pilot(RefinementKeys(), abilities_of("full"))
    assert begins_with_pilot(RefinementKeys(), abilities_of("design"))
    assert not begins_with_pilot(RefinementKeys(pilot=False), abilities_of("design"))
    assert begins_with_pilot(RefinementKeys(start="everything"), abilities_of("full"))
    assert begins_with_pilot(RefinementKeys(pilot=True), abilities_of("full"))
    assert not begins_with_pilot(RefinementKeys(start="everything", pilot=False), abilities_of("full"))


def function(name, inline=False):
    unknown = ("a.c", 1, "a.c", "external", inline, True, 1, 1, None, 0, "", False, (), ())
    return StaticFunction(name, name, name, *unknown)


@pytest.mark.parametrize(
    ("filter_text", "hooked"),
    [
        ("", {"plain"}),  # Score-P passes over what is declared inline
        (format_filter(only(["short"])), {"short"}),
    ],
)
def test_where_timed_builds_say_nothing_of_the_program_the_build_that_counts_does(filter_text, hooked):
    timed, counted = BuildSpec("t", Mode.TIME, filter_text), BuildSpec("t", Mode.EFFORT, "")
    features = StaticFeatures((function("plain"), function("short", inline=True)), ("a.c",), (), ())
    plans = [SimpleNamespace(builds=[timed, counted])]
    session = SimpleNamespace(campaign=SimpleNamespace(environment_choice=None))
    history = SimpleNamespace(plans=plans, session=session, features={counted.hash: features, timed.hash: None}.get)
    known = static_features(history, 0)
    assert {function.name for function in known.functions} == {"plain", "short"}
    assert {function.name for function in known.functions if function.hooked} == hooked
    own = StaticFeatures((function("plain"),), ("a.c",), (), ())
    assert static_features(SimpleNamespace(plans=plans, session=session, features={timed.hash: own}.get), 0) is own
    assert static_features(SimpleNamespace(plans=plans, session=session, features={}.get), 0) is None


def test_what_is_known_of_a_program_is_of_the_environment_at_the_target():
    builds = [BuildSpec("t", Mode.TIME, "", (("tools", Category(word)),), environment=word) for word in ("gnu", "llvm")]
    features = {build.hash: StaticFeatures((function(build.environment),), (), (), ()) for build in builds}
    campaign = SimpleNamespace(environment_choice="tools", target={"tools": Category("llvm")})
    history = SimpleNamespace(
        plans=[SimpleNamespace(builds=builds)], session=SimpleNamespace(campaign=campaign), features=features.get
    )
    assert [each.name for each in static_features(history, 0).functions] == ["llvm"]


def test_without_a_call_graph_no_other_strategy_takes_the_place_of_a_published_one(tmp_path):
    session, _ = starting(tmp_path, strategy="filter-and-expand")
    with pytest.raises(BuildError, match="call graph") as caught:
        _published(session, SimpleNamespace(tree=None), None, None, None, None)
    assert "filter-and-expand" in str(caught.value)
