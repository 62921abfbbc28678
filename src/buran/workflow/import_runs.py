"""Taking measurements that exist already over into the store, as finished runs that cost nothing here."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from buran.campaign.layout import Layout
from buran.campaign.plan import Bundle, Mode, Plan
from buran.campaign.point import Point
from buran.campaign.records import BundleOutcome, RunRecord, Status, read_run
from buran.errors import BuranError, FormatError
from buran.files import digest, file_sha256
from buran.measurement.bundle import PROFILE, outcome_of, slots_of
from buran.measurement.store import ledger, store
from buran.profiles.call_paths import read_profile
from buran.profiles.cubex_read import BELOW_ZERO
from buran.profiles.cubex_write import write_cubex
from buran.profiles.experiment.single_run import profile_of_run
from buran.profiles.profile import Profile
from buran.workflow.imported import Import, ImportedRun, ImportOutcome, NotImported, imports_of
from buran.workflow.session import Session


def import_runs(session: Session, plan: Plan) -> ImportOutcome:
    """Import the runs that a plan names, and write the pointers of its bundles.

    What is in the store stays as it is, also where its file has another content by now.
    """
    layout = session.layout
    imports = {source.spec.hash: source for source in imports_of(session.campaign, layout)}
    taking = _Taking(session)
    for bundle in plan.bundles:
        taking.bundle(bundle, imports[bundle.runs[0].build])
    return ImportOutcome((*(problem for source in imports.values() for problem in source.problems), *taking.changed))


def changed_sources(layout: Layout) -> Iterator[str]:
    """Yield, as text, the files that are not what they were when they were imported."""
    for folder in sorted(store.finished(layout.store)):
        try:
            record = read_run(folder)
        except FormatError:  # said of the folder itself
            continue
        if record.mode is Mode.IMPORTED and (problem := _changed(record)):
            yield f"{problem.where}: {problem.reason}"


def _sha256(path: Path) -> str:
    """Return the SHA-256 of a file, or one of all files in a folder."""
    if not path.is_dir():
        return file_sha256(path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return digest([[file.relative_to(path).as_posix(), file_sha256(file)] for file in files], 64)


def _changed(record: RunRecord) -> NotImported | None:
    assert record.source is not None and record.imported is not None
    path = Path(record.source["path"])
    if not path.exists() or _sha256(path) == record.source["sha256"]:
        return None
    at = record.point.key
    why = (
        f"it changed after it was imported on {record.imported[:10]}; models take what was imported. "
        f"`buran run FILE --remeasure {at}` imports it again"
    )
    return NotImported(f"imported run at {at}", why, str(path))


@dataclass
class _Taking:
    session: Session
    changed: list[NotImported] = field(default_factory=list)
    run_of_content: dict[str, str] = field(default_factory=dict)
    """Contents so far, with the runs that have them."""

    def bundle(self, bundle: Bundle, source: Import) -> None:
        """Take the runs of a bundle over; write its pointer."""
        layout, target = self.session.layout, self.session.target
        sources = {run.repetition: run for run in source.runs if run.point == bundle.point}
        slots = slots_of(target, layout, bundle)
        for run, slot in slots:
            with store.reserve(slot) as temporary:
                if temporary is not None:
                    self.take(source, sources[run.repetition], slot, temporary)
            record = read_run(slot.folder) if slot.is_measured() else None
            if record is not None and record.content is not None:
                self.run_of_content.setdefault(record.content, f"{bundle.point.key}, {run.name}")
                problem = _changed(record)
                self.changed += [problem] if problem else []
        outcome = BundleOutcome.of(bundle, (outcome_of(layout, run, slot) for run, slot in slots))
        replace(outcome, complete=True).write(layout.bundle_pointer(bundle.id))

    def take(self, source: Import, run: ImportedRun, slot: store.Slot, temporary: Path) -> None:
        """Make a run of a file; afterwards there is a verdict on it."""
        file = temporary / PROFILE
        record = RunRecord(
            status=Status.MEASURED,
            build=source.spec.hash,
            target=source.spec.target,
            mode=Mode.IMPORTED,
            point=run.point,
            repetition=run.repetition,
            imported=datetime.now(UTC).isoformat(timespec="milliseconds"),
            clock="elsewhere",
            cores=self.session.campaign.cores(run.point),
            cost_core_hours=0.0,
        )
        path = run.path or source.path
        reason: str | None = None
        try:
            record = replace(record, source={"path": str(path), "sha256": _sha256(path)})
            if source.table is None:
                shutil.copyfile(path, file)
                profile = read_profile(file)
            else:
                assert run.row is not None
                profile = profile_of_run(source.table, run.row, run.repetition)
                write_cubex(profile, file, compress=True)
            reason = self.objection(profile, run.point, by_rank=source.table is None)
            if reason is None:
                wall_s, cpu_s = _times(profile, by_rank=source.table is None, cores=record.cores)
                content = file_sha256(file)
                if fallen := profile.attributes.get(BELOW_ZERO):
                    record = replace(record, counters_unavailable=f"{fallen} fell below zero")
                record = replace(record, wall_s=wall_s, cpu_s=cpu_s, content=content, metrics=tuple(profile.metrics))
                record = self.with_cost(source, record)
                twin = self.run_of_content.get(content)
                reason = f"it is the same run as {twin}: a repetition is a run of its own" if twin else None
        except OSError as error:
            reason = f"the file cannot be read: {error.strerror}: {error.filename}"
        except BuranError as error:
            reason = "; ".join(filter(None, (": ".join(filter(None, (error.what, error.why))), error.hint)))
        if reason:
            record = replace(record, status=Status.FAILED, reason=reason)
            file.unlink(missing_ok=True)
        record.write(temporary)
        keep = store.keep_failure if reason else store.commit
        entry = ledger.entry_of(self.session.layout.store, keep(slot, temporary))
        if entry is not None:
            ledger.append(self.session.layout.store, entry)

    def objection(self, profile: Profile, point: Point, *, by_rank: bool) -> str | None:
        """Return why a profile cannot be the one of a run at a point; None if it can."""
        campaign = self.session.campaign
        if "time" not in profile.metrics:
            return f"it has no metric time, but {', '.join(profile.metrics) or 'none'}"
        seconds = profile.exclusive("time")
        if not np.isfinite(seconds).all():
            return "some of its times are no numbers"
        if not seconds.sum() > 0:
            return "its times are all 0"
        if by_rank:
            stands_for = profile.attributes.get("represents_locations")
            ranks, expected = len({location.rank for location in profile.locations}), campaign.ranks(point)
            if stands_for is not None:
                ranks, expected = int(stands_for), campaign.cores(point)
            if ranks != expected:
                what = "ranks" if stands_for is None else "ranks and threads"
                return f"it has {ranks} {what}, but a run at {point.key} has {expected}"
        return None

    def with_cost(self, source: Import, record: RunRecord) -> RunRecord:
        """Return the record with what the run had cost, and how that is known."""
        formula = self.session.campaign.imported_core_hours[source.number]
        if formula is not None:
            cost, origin = float(formula(record.point)), "measurements.core_hours"
        else:
            cost, origin = (record.wall_s or 0.0) * record.cores / 3600.0, "its times"
        return replace(record, had_cost_core_hours=cost, cost_from=origin)


def _times(profile: Profile, *, by_rank: bool, cores: int) -> tuple[float, float]:
    """Return the time of the slowest location, and of all, in seconds."""
    seconds = profile.exclusive("time").sum(axis=0)
    locations = int(profile.attributes.get("represents_locations", len(seconds))) if by_rank else cores
    return float(seconds.max()), float(seconds.mean() * locations)
