from __future__ import annotations

import contextlib
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.campaign.document import read_yaml
from buran.campaign.mistakes import CampaignError


def read(tmp_path: Path, text: str | bytes) -> dict[str, object]:
    path = tmp_path / "x.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return dict(read_yaml(path).data)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e3", 1000),
        ("1E-3", 0.001),
        ("4.0", 4),
        ("-2", -2),
        (".5", 0.5),
        ("true", True),
        ("False", False),
        ("on", "on"),
        ("yes", "yes"),
        ("010", "010"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("0x10", "0x10"),
        ("'4'", "4"),
        ("~", None),
        ("", None),
        (".inf", math.inf),
        ("[1, [a, 2]]", (1, ("a", 2))),
        ("{b: 1}", {"b": 1}),
        ("9" * 6000, math.inf),
    ],
)
def test_values_follow_yaml_1_2(tmp_path: Path, text: str, value: object) -> None:
    found = read(tmp_path, f"a: {text}\n")["a"]
    assert found == value
    assert type(found) is type(value)


def test_nan(tmp_path: Path) -> None:
    found = read(tmp_path, "a: .nan")["a"]
    assert isinstance(found, float) and math.isnan(found)


def test_every_key_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("# comment\na:\n  b:\n    - 1\n    - {c: 2}\nd: 3\n")
    document = read_yaml(path)
    assert document.line(("a",)) == 2
    assert document.line(("a", "b", 0)) == 4
    assert document.line(("a", "b", 1, "c")) == 5
    assert document.line(("d",)) == 6
    assert document.line(("a", "b", "missing")) == 3


def test_a_key_that_stands_twice_names_both_lines(tmp_path: Path) -> None:
    with pytest.raises(CampaignError) as caught:
        read(tmp_path, "a:\n  x: 1\n  y: 2\n  x: 3\nb: 1\nb: 2\n")
    assert [(m.path, m.line) for m in caught.value.mistakes] == [(("a", "x"), 4), (("b",), 6)]
    assert re.findall(r"line (\d+)", str(caught.value)) == ["2", "4", "5", "6"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (b"", "empty"),
        (b"# only a comment\n", "empty"),
        (b"null", "empty"),
        (b"- 1\n- 2\n", "no keys"),
        (b"text", "no keys"),
        (b"a: 1\nb: caf\xe9\n", "UTF-8"),
        (b"a:\n\tb: 1\n", "tabs"),
        (b"a: {b}: c", "YAML"),
        (b"a: [1, 2", "YAML"),
        (b"run: {binary} {n}", "quotes"),
        (b"a: %x", "YAML"),
        (b"a: 1\n---\nb: 2\n", "YAML"),
        (b"a: \x00", "character"),
        (b"a: !!python/object:os.system x", "tag"),
        (b"a: !!binary aGk=", "tag"),
        (b"a: !own 3", "tag"),
        (b"a: &x {b: 1}\nc: {<<: *x}", "merge"),
        (b"? [1, 2]\n: 3\n", "word"),
        (b"a0: &a0 {b: 1}\n" + b"".join(b"a%d: &a%d {b: *a%d}\n" % (i, i, i - 1) for i in range(1, 300)), "levels"),
        (b"a: &x [*x]", "levels of YAML"),
        (b"a: 1\n" + b"#" * 1_000_000, "bytes of YAML"),
        (b"a: " + b"[" * 5000, ""),
        (b"a: " + b"[" * 300 + b"]" * 300, "levels"),
    ],
)
def test_what_is_no_campaign_file_is_refused(tmp_path: Path, text: bytes, part: str) -> None:
    with pytest.raises(CampaignError) as caught:
        read(tmp_path, text)
    assert part in str(caught.value)
    assert "x.yaml" in str(caught.value)


def test_the_line_of_a_foreign_byte(tmp_path: Path) -> None:
    with pytest.raises(CampaignError) as caught:
        read(tmp_path, b"a: 1\nb: 2\nc: \xff\n")
    assert caught.value.mistakes[0].line == 3


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbfa: 1\n") == {"a": 1}


def test_aliases_cannot_explode(tmp_path: Path) -> None:
    levels = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(CampaignError, match="the limit is 500,000"):
        read(tmp_path, "\n".join(levels))


def test_missing_file_and_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(CampaignError) as caught:
            read_yaml(path)
        assert str(path) in str(caught.value)


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(raw)
    with contextlib.suppress(CampaignError):
        read_yaml(path)
