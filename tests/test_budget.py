"""A small file cannot ask for much: limits of bytes, memory, depth and counts, named in the message."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

from buran import budget
from buran.campaign.document import read_yaml
from buran.campaign.mistakes import CampaignError
from buran.errors import FormatError, UsageError
from buran.files import read_json
from buran.modeling.tensor.model import load_model
from buran.profiles.cubex_read import read_cubex
from buran.profiles.cubex_write import write_cubex
from buran.profiles.experiment.read import read_experiment
from buran.profiles.metrics import metric_of
from buran.profiles.profile import CallTree, Location, Profile, Region


def refused(path: Path, *words: str) -> None:
    """Expect the message that names the file, the limit and what raises it."""
    with pytest.raises(FormatError) as error:
        read_experiment(path)
    text = str(error.value)
    assert str(path) in text and budget.VARIABLE in text and "the limit is" in text
    assert all(word in text for word in words), text


def value(path: str, repetition: int = 0, x: int = 1) -> str:
    return json.dumps({"params": {"x": x}, "callpath": path, "metric": "t", "value": 1.0, "repetition": repetition})


def test_a_table_may_not_be_far_larger_than_its_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "sparse.jsonl"
    path.write_text("\n".join(value(f"main->f{i}", 999_999 if i == 0 else 0, i) for i in range(200)))
    refused(path, "1,608,000,000,000 bytes of memory")
    path.write_text("\n".join((value("main->f"), value("main->g", 60_000), value("main->h", 60_000, 2))))
    assert read_experiment(path).values["t"].nbytes < 256_000_000
    monkeypatch.setenv(budget.VARIABLE, "0.01")
    refused(path, "2,560,000")


def test_a_chain_of_calls_may_not_fill_memory_with_its_names(tmp_path: Path) -> None:
    path = tmp_path / "chain.jsonl"
    path.write_text(value("->".join(["a"] * 100_000)))
    refused(path)


def test_the_factor_is_a_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(budget.VARIABLE, "much")
    with pytest.raises(UsageError, match=budget.VARIABLE):
        budget.read_bytes(Path(__file__))


def test_what_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(budget.VARIABLE, "0.0001")
    refused(Path("/dev/zero"))


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 50_000,
        "a: " + "{a: " * 50_000,
        "a: &a [1]\nk0: &b0 [*a, *a]\n" + "".join(f"k{i}: &b{i} [*b{i - 1}, *b{i - 1}]\n" for i in range(1, 60)),
        "a: &a [*a]\n",
        "a: " + "1" * 2_000_000,
    ],
    ids=["lists", "mappings", "references", "circle", "long"],
)
def test_yaml_asks_for_little(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(CampaignError) as mistake:
        read_yaml(path)
    assert str(path) in str(mistake.value) and budget.VARIABLE in str(mistake.value)


def test_json_that_is_nested_deeply_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("[" * 200_000)
    with pytest.raises(FormatError, match="does not hold JSON"):
        read_json(path)


def chain(depth: int) -> Profile:
    tree = CallTree((Region("f"),), np.zeros(depth, dtype=np.int64), np.arange(-1, depth - 1))
    return Profile(tree, (Location(0, 0),), {"time": metric_of("time")}, {"time": np.ones((depth, 1))}, {})


def test_call_paths_are_read_as_deep_as_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep.cubex"
    write_cubex(chain(30_000), path)
    assert len(read_cubex(path).tree) == 30_000
    monkeypatch.setenv(budget.VARIABLE, "0.1")
    with pytest.raises(FormatError, match=r"20,000 deep(.|\n)*" + budget.VARIABLE):
        read_cubex(path)
    from buran.errors import RunError

    with pytest.raises(RunError, match="too deep"):
        write_cubex(chain(30_000), tmp_path / "deeper.cubex")


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]


def archive(path: Path, contents: dict[str, bytes], mode: str = "w") -> None:
    with tarfile.open(path, mode) as file:  # type: ignore[call-overload]
        for name, data in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            file.addfile(member, io.BytesIO(data))


def test_profiles_that_unpack_to_much_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "profile.cubex"
    write_cubex(chain(3), path)
    contents = members(path)
    xml = contents["anchor.xml"]
    archive(path, {**contents, "anchor.xml": gzip.compress(xml + b" " * 30_000_000)})
    with pytest.raises(FormatError, match="bytes of memory") as error:
        read_cubex(path)
    assert budget.VARIABLE in str(error.value)
    archive(path, {**contents, "anchor.xml": gzip.compress(xml)})
    assert len(read_cubex(path).tree) == 3
    for mode in ("w:gz", "w:xz", "w:bz2"):
        archive(path, contents, mode)
        with pytest.raises(FormatError, match="compressed as a whole"):
            read_cubex(path)


def test_sparse_members_of_profiles_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "profile.cubex"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as file:
        member = tarfile.TarInfo("anchor.xml")
        sizes = {"GNU.sparse.map": "0,1", "GNU.sparse.size": "999999999999"}
        member.pax_headers = {**sizes, "GNU.sparse.name": "anchor.xml"}
        member.size = 1
        file.addfile(member, io.BytesIO(b"<"))
    with pytest.raises(FormatError, match="claims to be larger"):
        read_cubex(path)


def test_tensor_files_unpack_to_little(tmp_path: Path) -> None:
    path = tmp_path / "m.tensor"
    np.savez_compressed(path, header=np.zeros(300_000_000, dtype=np.uint8))
    with pytest.raises(FormatError, match="bytes of memory") as error:
        load_model(path.with_suffix(".tensor.npz"))
    assert budget.VARIABLE in str(error.value)
