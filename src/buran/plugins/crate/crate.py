"""A results folder as an RO-Crate: all that was measured, what it was measured with, and what measures it again.

`rocrate` writes the metadata, which follow RO-Crate 1.1 (https://w3id.org/ro/crate/1.1).
"""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from buran import __version__
from buran.campaign.document import read_campaign_file
from buran.campaign.layout import REPORT, Layout
from buran.campaign.plan import Mode
from buran.campaign.records import RECORD, BuildRecord, read_build
from buran.errors import UsageError
from buran.extensions import from_extra
from buran.features import FEATURES
from buran.files import file_sha256, read_json, write_text
from buran.measurement.source import is_product
from buran.measurement.store.store import build_folders

METADATA = "ro-crate-metadata.json"
CAMPAIGN, SOURCE, RESULTS, STORE = "campaign.yaml", "source", "results", "store"
_VERSION = "1.1"
_ELSEWHERE = ("measurements", "correct", "simulated")
"""Keys of a campaign file that name other files."""
_MEDIA = {".json": "application/json", ".jsonl": "application/x-ndjson", ".csv": "text/csv", ".html": "text/html"}


def is_results(folder: Path) -> bool:
    """Tell whether this is the results folder of a campaign."""
    return (folder / STORE).is_dir() and (folder / "latest" / REPORT).is_file()


def write_crate(results: Path, crate: Path) -> list[str]:
    """Write a new folder; return what measuring it again needs next to it, in sentences.

    Parameters
    ----------
    results
        As `is_results` says: of the campaign's last finished run, with the store of all its runs.

    Raises
    ------
    UsageError
        There is something in the folder, or no build kept its sources.
    ToolError
        `rocrate` is not installed.
    """
    if crate.exists() and (not crate.is_dir() or any(crate.iterdir())):
        raise UsageError("the folder for the crate is not empty", where=crate, hint="name a new folder")
    described = from_extra("rocrate.rocrate", "crate", "RO-Crates").ROCrate(version=_VERSION)
    layout = Layout(results.resolve())
    build, tree = _measured_build(layout)
    shutil.copytree(layout.latest.resolve(), crate / RESULTS, dirs_exist_ok=True)
    built = Path(build.binary).name if build.binary else ""
    shutil.copytree(tree, crate / SOURCE, ignore=lambda _, names: [n for n in names if is_product(n) or n == built])
    shutil.copytree(layout.store, crate / STORE, ignore=shutil.ignore_patterns("tree"), symlinks=True)
    data: dict[str, Any] = dict(read_campaign_file(crate / RESULTS / CAMPAIGN).data)
    notes = [f"{key} names files that are not in the crate" for key in _ELSEWHERE if data.get(key)]
    for feature in FEATURES:
        if feature.identity is not None:  # its key names files that are not in the crate
            data.pop(feature.name, None)
    data |= {"results": "results", "program": {**data["program"], "source": SOURCE}}
    write_text(crate / CAMPAIGN, yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
    title = f"Performance measurements of {data['name']}"
    write_text(crate / "CITATION.cff", yaml.safe_dump(_citation(title), sort_keys=False))
    _write_metadata(described, crate, title, layout, build)
    return notes


def _measured_build(layout: Layout) -> tuple[BuildRecord, Path]:
    """Return the newest build that times were measured with, and its sources as they were built."""
    for folder in sorted(
        build_folders(layout.store), key=lambda folder: (folder / RECORD).stat().st_mtime, reverse=True
    ):
        tree = folder.parent / "tree"
        if tree.is_dir() and (record := read_build(folder)).spec.mode is Mode.TIME:
            return record, tree
    raise UsageError(
        "the results have no sources",
        where=layout.store,
        why="simulated programs have none, and no other build is there",
        hint="`buran convert` takes experiment.jsonl to other formats",
    )


def _citation(title: str) -> dict[str, Any]:
    software = {
        "title": "Buran",
        "version": __version__,
        "type": "software",
        "authors": [{"name": "The Buran developers"}],
    }
    return {
        "cff-version": "1.2.0",
        "message": "If you use these measurements, cite them, and Buran that made them.",
        "title": title,
        "type": "dataset",
        "authors": [{"name": "not stated: write who measured"}],
        "references": [software],
    }


def _write_metadata(described: Any, crate: Path, title: str, layout: Layout, build: BuildRecord) -> None:
    """Write what is in the crate, and the action that measured."""
    day = datetime.fromtimestamp((layout.latest / REPORT).stat().st_mtime, UTC).date().isoformat()
    described.name, described.datePublished, described.license = title, day, "not stated"
    described.description = "A measurement campaign of Buran: `buran run campaign.yaml` repeats it."
    for path in sorted(crate.rglob("*")):
        name = path.relative_to(crate)
        if path.is_file() and STORE not in name.parts:
            described.add_file(path, name, properties=_properties(path))
    source, results, store = (
        described.add_dataset(crate / folder, folder, properties={"name": text})
        for folder, text in (
            (SOURCE, "Sources as they were built"),
            (RESULTS, "Models, report and table of all measurements"),
            (STORE, "Every build and run: record, profile, output, checksums"),
        )
    )
    source["identifier"] = build.source["identity"]
    tools = [
        described.add_jsonld(
            {"@id": f"#{name.replace(' ', '-')}", "@type": "PropertyValue", "name": name, "value": value}
        )
        for name, value in environment_facts(layout.store).items()
    ]
    software = {"@id": "#buran", "@type": "SoftwareApplication", "name": "Buran", "version": __version__}
    described.root_dataset["mentions"] = described.add_action(
        described.add_jsonld(software),
        "#measured",
        object=[described.get(CAMPAIGN), source, *tools],
        result=[results, store],
        properties={"name": "buran run", "endTime": day},
    )
    described.metadata.write(crate)


def _properties(path: Path) -> dict[str, str]:
    return {
        "name": path.name,
        "contentSize": str(path.stat().st_size),
        "sha256": file_sha256(path),
        "encodingFormat": _MEDIA.get(path.suffix, "text/plain"),
    }


def environment_facts(store: Path) -> dict[str, str]:
    """Return what a campaign's builds and runs were made with and on, as text; what is not known is left out."""
    facts: dict[str, set[str]] = {}
    nodes = [read_json(path) for path in sorted((store / "nodes").glob("*.json"))]
    for folder in build_folders(store):
        record = read_build(folder)
        described = {
            **{name: record.toolchain.get(key) for name, key in (("compiler", "compiler"), ("MPI", "mpi"))},
            "flags": record.flags,
            "sources": record.source["identity"],
            **{f"{name} version": record.tools.get(name) for name in ("buran", "python")},
        }
        for name, value in described.items():
            if value:
                facts.setdefault(name, set()).add(str(value))
    for node in nodes:
        cpu = node.get("lscpu") or {}
        for name, value in {
            "processor": cpu.get("Model name"), "CPUs": cpu.get("CPU(s)"), "kernel": node.get("kernel"),
            "C library": node.get("libc"), "architecture": node.get("machine"),
        }.items():  # fmt: skip
            if value:
                facts.setdefault(name, set()).add(str(value))
    return {name: ", ".join(sorted(values)) for name, values in facts.items()}
