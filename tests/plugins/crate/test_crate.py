"""Results as an RO-Crate, and the crate measured again: what is in it, what differs, what is refused."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from buran.errors import ToolError, UsageError
from buran.files import file_sha256
from buran.plugins.crate.crate import METADATA, environment_facts, is_results, write_crate
from crate_results import results_of


def test_a_crate_has_all_that_measures_again_and_all_that_was_measured(tmp_path: Path) -> None:
    results, crate = results_of(tmp_path / "results"), tmp_path / "crate"
    (results / "store/b1/tree/a b#1.h").touch()
    assert is_results(results)
    assert write_crate(results, crate) == []
    assert {path.name for path in (crate / "source").iterdir()} == {"sums.c", "a b#1.h"}, (
        "sources, without what was built"
    )
    assert (crate / "store/b1/n=1/rep-01/profile.cubex").read_bytes() == b"profile"
    text = (crate / "campaign.yaml").read_text()
    assert "source: source" in text
    assert "elsewhere" not in text
    document = json.loads((crate / METADATA).read_text())
    entities = {entity["@id"]: entity for entity in document["@graph"]}
    assert len(entities) == len(document["@graph"]), "each has an @id of its own"
    assert entities[METADATA]["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    assert {"name", "description", "datePublished", "license", "hasPart"} <= entities["./"].keys()
    for part in entities["./"]["hasPart"]:
        assert entities[part["@id"]]["@type"] in ("File", "Dataset")
        assert (crate / unquote(part["@id"])).exists()
    assert entities["source/sums.c"]["sha256"] == file_sha256(crate / "source/sums.c")
    assert entities["source/"]["identifier"] == "s1" and "source/a%20b%231.h" in entities
    assert entities["#measured"]["instrument"] == {"@id": "#buran"} and len(entities["#measured"]["result"]) == 2
    assert entities["./"]["mentions"] == {"@id": "#measured"}
    assert entities["#compiler"]["value"] == "clang 16"
    assert set(map(tuple, (reference.items() for reference in entities["#measured"]["object"]))) <= {
        (("@id", name),) for name in entities
    }


def test_files_that_are_elsewhere_are_named(tmp_path: Path) -> None:
    results = results_of(tmp_path / "results")
    with (results / "latest/campaign.yaml").open("a") as file:
        file.write("measurements: [{path: ../sweep}]\n")
    (note,) = write_crate(results, tmp_path / "crate")
    assert note.startswith("measurements ")


def test_what_makes_no_crate_is_refused(tmp_path: Path) -> None:
    results = results_of(tmp_path / "results")
    full = tmp_path / "full"
    full.mkdir()
    (full / "kept").touch()
    with pytest.raises(UsageError, match="not empty"):
        write_crate(results, full)
    shutil.rmtree(results / "store/b1/tree")
    with pytest.raises(UsageError, match="no sources"):
        write_crate(results, tmp_path / "crate")


def test_without_the_package_its_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rocrate.rocrate", None)
    with pytest.raises(ToolError) as caught:
        write_crate(results_of(tmp_path / "results"), tmp_path / "crate")
    assert caught.value.hint == "pip install 'buran[crate]'" and not (tmp_path / "crate").exists()


def test_a_crate_tells_what_it_was_measured_with(tmp_path: Path) -> None:
    facts = environment_facts(results_of(tmp_path / "results") / "store")
    assert facts["processor"] == "AMD EPYC" and facts["compiler"] == "clang 16" and facts["flags"] == "-O2"
