"""The one grammar of places in the store."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.campaign.point import Point
from buran.campaign.records import BUILD, RunKey

NAMES = st.one_of(st.just("warmup"), st.integers(0, 2000).map("rep-{:02d}".format))
VALUES = st.one_of(st.integers(-(10**9), 10**9), st.floats(allow_nan=False, allow_infinity=False))
POINTS = st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True), VALUES, min_size=1, max_size=3)
HEX = st.text("0123456789abcdef", min_size=8, max_size=16)


@given(HEX, POINTS, st.one_of(HEX, st.just("imported")), NAMES, st.integers(0, 20), st.none() | st.integers(0, 20))
def test_places_of_runs_are_read_as_they_are_written(
    build: str, point: dict[str, float], configuration: str, name: str, generation: int, attempt: int | None
) -> None:
    key = RunKey(build, Point.of(point).key, configuration, name, generation, attempt)
    assert RunKey.parse(str(key)) == key
    assert not key.is_build
    assert key.question == (build, Point.of(point).key, name)


@given(HEX, st.none() | st.integers(0, 20))
def test_places_of_builds_are_read_as_they_are_written(build: str, attempt: int | None) -> None:
    key = RunKey(build, "", "", BUILD, 0, attempt)
    assert RunKey.parse(str(key)) == key and key.is_build


def test_places_as_they_are_on_disk() -> None:
    assert str(RunKey("b", "n=1,p=4", "c", "rep-00")) == "b/n=1,p=4~c/rep-00"
    assert str(RunKey("b", "n=1,p=4", "c", "rep-00", 1)) == "b/n=1,p=4~c/rep-00-g1"
    assert str(RunKey("b", "n=1", "c", "warmup", 2, 3)) == "b/n=1~c/failed/warmup-g2.a3"
    assert str(RunKey("b", "", "", BUILD)) == "b/build"
    assert str(RunKey("b", "", "", BUILD, 0, 0)) == "b/failed/build.a0"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "b",
        "b/tree",
        "b/n=1~c",
        "b/n=1~c/rep-00.a0",
        "b/n=1~c/failed/rep-00",
        "b/rep-00",
        "b/n=1~c/build",
        "a/b/c/d",
    ],
)
def test_other_places_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match=repr(path)):
        RunKey.parse(path)
