"""Stores of earlier versions, which have all points of a build in one folder, go on beside places that are divided."""

from __future__ import annotations

import os
import shutil
import signal
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from buran.campaign.layout import Layout
from buran.campaign.plan import Mode, Run
from buran.campaign.point import Point
from buran.campaign.records import BundleOutcome, RunKey, RunRecord, Status, read_run
from buran.cli import main
from buran.errors import Exit
from buran.files import file_sha256, not_synced
from buran.measurement import bundle as measuring
from buran.measurement.store import ledger, store
from buran.workflow.engine import controller
from buran.workflow.history import History
from buran.workflow.measure import open_generation
from buran.workflow.session import Session, open_session
from buran.workflow.views.summary import summarize
from buran.workflow.views.verify import differences
from buran_studies.simulate.in_process import carry_out

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[1] / "data" / "earlier-version"


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with not_synced():
        yield


@pytest.fixture
def old(tmp_path: Path) -> Session:
    """A campaign that an earlier version was killed in: some pointers, claims and a half-made run are left of it."""
    with tarfile.open(DATA / "undivided.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    file = tmp_path / "campaign.yaml"
    file.write_text(file.read_text().replace("program: program.yaml", "simulated: program.yaml"))
    return open_session(file)


def checksums(layout: Layout) -> dict[Path, str]:
    return {path: file_sha256(path) for run in store.finished(layout.store) for path in run.iterdir()}


def is_flat(folder: Path) -> bool:
    return "~" in folder.parent.name and len(folder.parent.parent.name) == 16


def assert_nothing_twice(layout: Layout) -> None:
    runs = Counter(ledger.key_in(layout.store, folder) for folder in store.finished(layout.store))
    assert runs and set(runs.values()) == {1}


def test_it_goes_on_and_nothing_is_measured_twice(old: Session) -> None:
    layout = old.layout
    before, seen = checksums(layout), summarize(History.open(old))
    assert (seen.measured, seen.runs) == (34, 40)
    assert all(map(is_flat, store.finished(layout.store)))
    assert list(layout.store.glob("*/*~*/.tmp-rep-01-*")) and list((layout.root / "claims").glob("*.claim"))
    controller.make_eligible(layout, old.id, retry_failed=False)
    assert carry_out(old).done
    now = checksums(layout)
    assert {path: now.get(path) for path in before} == before
    assert_nothing_twice(layout)
    folders = list(store.finished(layout.store))
    assert any(map(is_flat, folders)) and not all(map(is_flat, folders)), "some beside the old ones, some not"
    measured = sum(folder.parent.name != "failed" for folder in store.run_folders(layout.store))
    kept = [read_run(folder) for folder in store.run_folders(layout.store) if folder.parent.name == "failed"]
    assert [record.status for record in kept] == [Status.INTERRUPTED]
    assert not [*layout.store.rglob(".tmp-*"), *layout.root.glob("claims/**/*.claim"), *layout.store.rglob("*.claim")]
    assert summarize(History.open(old)).measured == measured
    ledger.ledger_path(layout.store).unlink()
    ledger.complete(layout.store)
    assert list(map(str, differences(layout))) == []
    assert summarize(History.open(old)).measured == measured


@pytest.mark.thorough
def test_the_engine_goes_on_with_it(old: Session, capsys: pytest.CaptureFixture[str]) -> None:
    before = checksums(old.layout)
    assert main(["run", str(old.campaign.path)]) == Exit.DONE
    assert {path: file_sha256(path) for path in before} == before
    assert_nothing_twice(old.layout)
    flat = [path for path in old.layout.made_pointers("bundles") if path.parent.name == "bundles"]
    assert flat and len(flat) < len(old.layout.made("bundles")), "pointers too stay where they are"
    measured = checksums(old.layout)
    assert main(["run", str(old.campaign.path)]) == Exit.DONE
    assert checksums(old.layout) == measured
    assert main(["verify", str(old.campaign.path)]) == 0


@pytest.mark.thorough
def test_campaigns_share_points_across_old_and_new_places(old: Session) -> None:
    data = yaml.safe_load(old.campaign.path.read_text())
    data["parameters"]["n"]["values"].append(50)
    other = old.campaign.path.with_name("other.yaml")
    other.write_text(yaml.safe_dump(data, sort_keys=False))
    assert carry_out(open_session(other)).done
    between = checksums(old.layout)
    assert carry_out(old).done
    assert {path: file_sha256(path) for path in between} == between
    assert_nothing_twice(old.layout)
    ours, theirs = (
        {(bundle.point, run) for plan in History.open(session).plans for bundle in plan.bundles for run in bundle.runs}
        for session in (old, open_session(other))
    )
    assert len(ours & theirs) > 20 and theirs - ours


@pytest.mark.thorough
def test_what_is_wanted_again_is_put_beside_the_old_runs(old: Session) -> None:
    carry_out(old)
    point = next(read_run(run).point for run in store.finished(old.layout.store) if is_flat(run))
    assert open_generation(old, point) > 0
    controller.forget_derived(old.layout, old.id)
    carry_out(old)
    again = [run for run in store.finished(old.layout.store) if run.name.endswith("-g1")]
    assert again and all(map(is_flat, again)) and {read_run(run).point for run in again} == {point}
    assert all(BundleOutcome.read(path).complete for path in old.layout.made_pointers("bundles"))


def test_verify_names_a_run_that_two_versions_made_and_one_that_nobody_finds(old: Session) -> None:
    run = next(store.finished(old.layout.store))
    twin = old.layout.store / RunKey.parse(run.relative_to(old.layout.store)).folders[-1] / run.name
    shutil.copytree(run, twin)
    assert twin.relative_to(old.layout.root) in {found.path for found in differences(old.layout)}
    shard = "00" if twin.parents[1].name != "00" else "ff"
    twin.parents[1].rename(twin.parents[2] / shard)
    moved = twin.parents[2] / shard / twin.parents[0].name / twin.name
    assert moved.relative_to(old.layout.root) in {found.path for found in differences(old.layout)}


@pytest.mark.parametrize("when", ["before the ledger", pytest.param("before the pointer", marks=pytest.mark.thorough)])
def test_a_kill_between_store_and_index_loses_nothing(old: Session, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layout, before = old.layout, {run: read_run(run) for run in store.finished(old.layout.store)}

    def die(*given: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        if when == "before the ledger":
            monkeypatch.setattr(measuring.ledger, "append", die)
        else:
            monkeypatch.setattr(BundleOutcome, "write", die)
        carry_out(old)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    made = {run: read_run(run) for run in store.finished(layout.store)}
    assert len(made) > len(before)
    controller.make_eligible(layout, old.id, retry_failed=False)
    booked = {entry.run for entry in ledger.read(layout.store)}
    assert {ledger.key_in(layout.store, run) for run in made} <= booked
    assert carry_out(old).done
    assert {run: read_run(run) for run in made} == made
    assert_nothing_twice(layout)
    assert list(map(str, differences(layout))) == []


Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["old", "new", "fails", "killed", "again", "books"]), st.integers(0, 2), st.integers(0, 1)
    )
)


class Mixed:
    """A store that an earlier version and this one measure into, and what must be in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.costs: dict[str, float] = {}
        self.made: dict[Path, str] = {}

    def key(self, point: int, repetition: int) -> RunKey:
        key = RunKey("b", f"n={point}", "c", Run("b", Mode.TIME, repetition).name)
        return RunKey(*(key.build, key.point, key.configuration, key.name), store.current_generation(self.folder, key))

    def fill(self, folder: Path, key: RunKey, status: Status, cost: float) -> None:
        (folder / "stdout.log").write_text(f"{key} {cost}")
        RunRecord(
            status=status, cost_core_hours=cost, build=key.build, target="t", mode=Mode.TIME, repetition=0,
            point=Point.of({"n": int(key.point[2:])}), clock="real", cores=1,
        ).write(folder)  # fmt: skip

    def old(self, key: RunKey, cost: float) -> None:
        """Measure as an earlier version does, which knows one place alone."""
        folder = self.folder / key.folder / key.slot
        if not folder.exists():
            folder.mkdir(parents=True)
            self.fill(folder, key, Status.MEASURED, cost)
            self.costs[str(key)] = cost
            self.made[folder] = f"{key} {cost}"

    def new(self, key: RunKey, cost: float, status: Status = Status.MEASURED) -> None:
        slot = store.Slot(self.folder, key)
        was_settled = slot.verdict() is not None
        with store.reserve(slot) as folder:
            assert (folder is None) == was_settled
            if folder is not None:
                self.fill(folder, key, status, cost)
                keep = store.commit if status is Status.MEASURED else store.keep_failure
                made = keep(slot, folder)
                self.costs[ledger.key_in(self.folder, made)] = cost
                self.made[made] = f"{key} {cost}"

    def killed(self, key: RunKey) -> None:
        """Leave a half-made run in the place where whoever was killed had it."""
        leftover = store.Slot(self.folder, key).point / f".tmp-{key.slot}-1-dead"
        leftover.mkdir(parents=True, exist_ok=True)

    def step(self, number: int, what: str, key: RunKey) -> None:
        if what == "old":
            self.old(key, number + 1.0)
        elif what == "new":
            self.new(key, number + 1.0)
        elif what == "fails":
            self.new(key, number + 1.0, Status.FAILED)
        elif what == "killed":
            self.killed(key)
        elif what == "again":
            store.new_generation(self.folder, key)
        else:
            ledger.complete(self.folder)

    def check(self) -> None:
        assert {folder: (folder / "stdout.log").read_text() for folder in self.made} == self.made
        found = {folder for folder in store.run_folders(self.folder) if (folder / "stdout.log").is_file()}
        assert found == set(self.made), "nothing lies where nobody looks"
        for folder in found:
            key = RunKey.parse(folder.relative_to(self.folder))
            assert store.folder_of(self.folder, key).is_dir()
            if key.attempt is None:
                assert store.Slot(self.folder, key).is_measured()
        ledger.rebuild(self.folder)
        booked = {entry.run: entry.cost_core_hours for entry in ledger.read(self.folder)}
        assert booked == self.costs


@settings(deadline=None, max_examples=60)
@given(STEPS)
def test_whoever_measures_where_nothing_is_lost_or_made_twice(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step]
) -> None:
    mixed = Mixed(tmp_path_factory.mktemp("store"))
    for number, (what, point, repetition) in enumerate(steps):
        mixed.step(number, what, mixed.key(point, repetition))
    mixed.check()
