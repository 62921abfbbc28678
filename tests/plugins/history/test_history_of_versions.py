"""The history of versions: what is entered, what is listed, and when it raises an alarm."""

from __future__ import annotations

import json
import math
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from buran.campaign.load import load_campaign
from buran.cli import main
from buran.errors import Exit
from buran.files import not_synced
from buran.plugins.history import feature, store
from buran.plugins.history.check import CheckResult, check, intervals_of_next
from buran.plugins.history.entry import PROGRAM, RUN_TIME, VersionEntry, entry_of
from buran.plugins.history.feature import FEATURE, enter, history_file
from buran.workflow.history import History
from buran.workflow.report import gather, write_results
from buran.workflow.session import Session, open_session
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import written

POINTS = [(p, n) for p in (1, 2, 4, 8) for n in (500, 1000, 2000)]
# The example bodies: work of each function, and how it grows.
WORK = {"forces": 10.0, "move": 0.1, "energy": 0.5}
SMALL: dict[str, Any] = {
    "parameters": {"p": {"role": "ranks", "values": [2, 4, 8]}, "n": {"role": "size", "values": [20, 30, 40]}},
    "history": "../history.sqlite",
}
NO_LOCKS = """
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
int __fcntl(int, int, ...);
static int answered(int command) {
    if (command != F_SETLK && command != F_SETLKW) return 0;
    if (getenv("HANGS")) sleep(600);
    errno = ENOLCK;
    return 1;
}
#define CALL(name) int name(int file, int command, ...) { \\
    va_list rest; va_start(rest, command); void *argument = va_arg(rest, void *); va_end(rest); \\
    return answered(command) ? -1 : __fcntl(file, command, argument); }
CALL(fcntl)
CALL(fcntl64)
"""


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test writes into the history of who runs it."""
    monkeypatch.delenv(feature.VARIABLE, raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def version_of_bodies(
    number: int, noise: float = 0.03, slower: float = 1.0, more: float = 1.0, worse: bool = False
) -> dict[str, Any]:
    """An entry of the example: `slower` forces, `more` work in them, `worse` growth of the energy."""
    scatter = np.random.default_rng([4545, number])

    def counts(name: str) -> list[float]:
        power = 1 if name == "move" else 2
        factor = {"forces": more}.get(name, 1.0)
        parts = [1 if name == "energy" else p for p, _ in POINTS]
        extra = [p if worse and name == "energy" else 1 for p, _ in POINTS]
        return [factor * WORK[name] * n**power * k / part for (_, n), part, k in zip(POINTS, parts, extra, strict=True)]

    machine = math.exp(scatter.normal(0, noise / 2))  # what all call paths of a campaign share
    times = {
        f"main->{name}": [
            1e-9 * machine * math.exp(scatter.normal(0, noise)) * count * (slower if name == "forces" else 1.0)
            for count in counts(name)
        ]
        for name in WORK
    }
    run_time = [sum(of) for of in zip(*times.values(), strict=True)]
    growth = {"forces": "n^2 * p^-1", "move": "n * p^-1", "energy": "p * n^2" if worse else "n^2"}
    return {
        "machine": "a processor",
        "points": [{"p": float(p), "n": float(n)} for p, n in POINTS],
        "measured": {
            RUN_TIME: {PROGRAM: run_time},
            "time": times,
            "basic_blocks": {f"main->{name}": counts(name) for name in WORK},
        },
        "predicted": {"basic_blocks": {f"main->{name}": [1.0, growth[name]] for name in WORK}},
    }


def checked_in_turn(versions: list[dict[str, Any]], last: int = 10) -> list[CheckResult]:
    return [check(each, versions[max(k - last, 0) : k][::-1]) for k, each in enumerate(versions)]


def test_twenty_unchanged_versions_raise_no_alarm() -> None:
    checked = checked_in_turn([version_of_bodies(k) for k in range(20)])
    assert [each.alarms for each in checked] == [()] * 20
    assert checked[0].notes and not checked[-1].notes
    assert checked[-1].counts == len(WORK) * len(POINTS)
    assert checked[-1].times == 3  # the program, forces and energy: no time of move matters


def test_what_changed_in_ten_versions_is_found_with_its_function() -> None:
    """A slow growth of the work of one function, another growth class of another, and one noisy campaign."""
    versions = [
        version_of_bodies(
            100 + k,
            noise=0.06 if k == 8 else 0.03,
            slower=1.02 ** max(k - 2, 0),
            more=1.02 ** max(k - 2, 0) if k < 7 else 1.02**4,
            worse=k >= 6,
        )
        for k in range(10)
    ]
    exact = [
        [(alarm.call_path, alarm.growth) for alarm in each.alarms if alarm.metric == "basic_blocks"]
        for each in checked_in_turn(versions)
    ]
    grows = ("main->forces", ("n^2 * p^-1", "n^2 * p^-1"))
    class_changed = ("main->energy", ("n^2", "p * n^2"))
    assert exact == [[], [], [], [grows], [grows], [grows], [class_changed, grows], [], [], []]
    timed = checked_in_turn(versions)
    assert [alarm.call_path for alarm in timed[6].alarms if alarm.metric == "time"] == ["main->energy"]
    assert not timed[8].alarms


def test_a_time_outside_of_the_last_ones_is_an_alarm_in_both_directions() -> None:
    unchanged = [version_of_bodies(200 + k) for k in range(10)]
    for slower in (1.5, 1 / 1.5):
        alarms = check(version_of_bodies(300, slower=slower), unchanged).alarms
        assert ("time", "main->forces") in [(alarm.metric, alarm.call_path) for alarm in alarms]
        low, high = alarms[0].before
        assert not low <= alarms[0].now <= high
        assert alarms[0].point == {"p": 8.0, "n": 2000.0}


def test_a_noisy_campaign_is_no_alarm_where_one_repetition_is_as_before() -> None:
    unchanged = [version_of_bodies(500 + k) for k in range(10)]
    noisy = version_of_bodies(600, slower=1.5)
    assert check(noisy, unchanged).alarms
    for metric in (RUN_TIME, "time"):
        noisy["measured"][f"least {metric}"] = unchanged[0]["measured"][metric]
    assert check(noisy, unchanged).alarms == ()


def test_a_campaign_that_times_only_runs_is_checked_too() -> None:
    versions = [version_of_bodies(700 + k) for k in range(8)]
    for each in versions:
        del each["measured"]["time"]
    assert check(versions[-1], versions[:-1]).times == 1
    assert check(version_of_bodies(800, slower=2.0), versions).alarms[0].metric == RUN_TIME


def test_times_of_another_machine_are_not_compared_but_counts_are() -> None:
    others = [{**version_of_bodies(k), "machine": "another"} for k in range(5)]
    checked = check(version_of_bodies(9, slower=3.0, more=2.0), others)
    assert [alarm.call_path for alarm in checked.alarms] == ["main->forces"]
    assert checked.times == 0 and len(checked.notes) == 1


def test_a_new_function_and_one_that_is_gone_change_counts_from_and_to_nothing() -> None:
    before, now = version_of_bodies(1), version_of_bodies(2)
    blocks = now["measured"]["basic_blocks"]
    blocks["main->sort"] = blocks.pop("main->move")
    changes = {alarm.call_path: (alarm.before, alarm.now) for alarm in check(now, [before]).alarms}
    assert changes.keys() == {"main->sort", "main->move"}
    assert changes["main->sort"][0] == (0.0,) and changes["main->move"][1] == 0.0


def test_counts_that_depend_on_the_run_are_not_compared() -> None:
    before, now = version_of_bodies(1), version_of_bodies(2, more=2.0)
    now["measured"]["basic_blocks"]["main->forces"] = [None] * len(POINTS)
    assert check(now, [before]).alarms == ()


def test_nothing_in_common_is_said_and_is_no_alarm() -> None:
    before, now = version_of_bodies(1), version_of_bodies(2, more=2.0)
    now["points"] = [{**point, "n": point["n"] + 1} for point in now["points"]]
    checked = check(now, [before, before])
    assert (checked.alarms, checked.counts, checked.times) == ((), 0, 0)
    assert len(checked.notes) == 2


def test_a_coarser_filter_does_not_look_like_a_slow_caller() -> None:
    """Without instrumentation a function's time is its caller's."""
    versions = [version_of_bodies(400 + k) for k in range(8)]
    for each in versions:
        each["measured"]["time"]["main"] = [1e-4] * len(POINTS)
    times = versions[-1]["measured"]["time"]
    moved = times.pop("main->forces")
    times["main"] = [a + b for a, b in zip(times["main"], moved, strict=True)]
    assert check(versions[-1], versions[:-1]).alarms == ()


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(2, 20),
    rows=st.integers(1, 12),
    noise=st.floats(0.001, 0.5),
    shared=st.floats(0, 1),
    level=st.sampled_from([0.9, 0.99]),
    seed=st.integers(0, 2**32),
)
@example(count=2, rows=6, noise=0.5, shared=0.0, level=0.99, seed=0)
def test_false_alarms_are_as_rare_as_the_interval_says(
    count: int, rows: int, noise: float, shared: float, level: float, seed: int
) -> None:
    """With any noise of times, also where call paths share it; four standard errors are allowed."""
    random, trials = np.random.default_rng(seed), 500
    own = random.normal(0, noise, (trials, rows, count + 1))
    common = random.normal(0, noise, (trials, 1, count + 1))
    values = np.exp(math.sqrt(1 - shared) * own + math.sqrt(shared) * common)
    alarms = 0
    for of_trial in values:
        low, high = np.array(intervals_of_next(of_trial[:, :-1], level)).T
        alarms += bool(((of_trial[:, -1] < low) | (of_trial[:, -1] > high)).any())
    expected = (1 - level) * trials
    assert alarms <= expected + 4 * math.sqrt(expected) + 1


# Campaigns


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A simulated campaign that is finished but for its report."""
    folder = tmp_path_factory.mktemp("campaign")
    session = open_session(written(folder / "version", **SMALL))
    with not_synced():
        carry_out(session)
    return session


@pytest.fixture
def entry(campaign: Session) -> VersionEntry:
    history = History.open(campaign)
    return entry_of(history, gather(history), Path("without a table"))


def entered(path: Path) -> list[dict[str, Any]]:
    return store.read(path, "SELECT * FROM campaigns ORDER BY id")


Record = Callable[[Path], list[str]]


@pytest.fixture
def record(campaign: Session, monkeypatch: pytest.MonkeyPatch) -> Record:
    """Records the campaign in a file; returns what the report says of that."""
    history = History.open(campaign)
    report = gather(history)

    def in_file(path: Path) -> list[str]:
        monkeypatch.setenv(feature.VARIABLE, str(path))
        assert FEATURE.record is not None
        return list(FEATURE.record(history, report, Path("without a table")))

    return in_file


@pytest.mark.slow
def test_versions_of_a_campaign_are_listed_and_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = yaml.safe_load(written(tmp_path / "first", **SMALL).with_name("program.yaml").read_text())
    worse = deepcopy(program)
    worse["program"]["main"]["calls"]["setup"]["basic_blocks"] = "1000 * n**2 * p"
    codes = []
    for name, version in (("v1", program), ("v2", program), ("v3", worse)):
        file = written(tmp_path / name, version, **SMALL)
        session = open_session(file)
        with not_synced():
            carry_out(session)
            write_results(History.open(session), session.layout.results(session.id))
        codes.append(main(["history", str(file), "--check", "10"]))
    assert codes == [Exit.DONE, Exit.DONE, Exit.CHANGED]
    assert "basic_blocks of setup" in capsys.readouterr().out
    assert main(["history", str(file), "--record"]) == Exit.DONE  # the same runs: no further entry
    entries = entered(tmp_path / "history.sqlite")
    assert entries[0]["version"] == entries[1]["version"] != entries[2]["version"]
    assert len(entries) == 3 and all(each["lower"] <= each["run_time"] <= each["upper"] for each in entries)

    capsys.readouterr()
    assert main(["history", str(file), "--json"]) == Exit.DONE
    listed = json.loads(capsys.readouterr().out)
    assert [each["id"] for each in listed] == [1, 2, 3]
    assert listed[2]["predicted"]["basic_blocks"]["simulated->main->setup"][1] == "p * n^2"
    assert main(["history", str(file), "--check", "1", "--json"]) == Exit.CHANGED
    (alarm,) = json.loads(capsys.readouterr().out)["alarms"]
    assert alarm["growth"] == ["n^2", "p * n^2"]
    assert main(["history", str(file), "--last", "2"]) == Exit.DONE
    shown = capsys.readouterr().out
    assert shown.count("p=4096") == 3 and "▁█" in shown and "█▁" not in shown

    page = tmp_path / "page.html"
    assert main(["history", str(file), "-o", str(page)]) == Exit.DONE
    assert all(each["version"] in page.read_text() for each in entries)
    monkeypatch.setenv(feature.VARIABLE, str(tmp_path / "history.sqlite"))
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert main(["history", "--json"]) == Exit.DONE
    (series,) = json.loads(capsys.readouterr().out)
    assert (series["name"], series["versions"]) == ("sim", 3)


def test_a_campaign_that_is_recorded_again_stays_where_it_was(record: Record, tmp_path: Path) -> None:
    """Its own report may be made after those of later versions."""
    path = tmp_path / "history.sqlite"
    assert record(path) == []
    (own,) = entered(path)
    with closing(sqlite3.connect(path)) as connection:
        columns = ", ".join(name for name in (*store.COLUMNS, "content"))
        connection.execute(f"INSERT INTO campaigns (key, {columns}) SELECT 'later', {columns} FROM campaigns")
        connection.commit()
    assert len(entered(path)) == 2
    assert record(path) == []
    assert [each["key"] for each in entered(path)] == [own["key"], "later"]


def test_what_the_variable_and_the_key_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def of(**keys: str) -> Path | None:
        return history_file(load_campaign(written(tmp_path, parameters=SMALL["parameters"], **keys)))

    assert of() is None  # simulated programs have none, unless a file is named
    assert of(history="own.sqlite") == tmp_path / "own.sqlite"
    assert of(history="off") is None
    assert history_file(None) == tmp_path / "home" / ".local" / "share" / "buran" / "history.sqlite"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert history_file(None) == tmp_path / "data" / "buran" / "history.sqlite"
    monkeypatch.setenv(feature.VARIABLE, "off")
    assert history_file(None) is None and of(history="own.sqlite") is None
    monkeypatch.setenv(feature.VARIABLE, "other.sqlite")
    assert of(history="own.sqlite") == tmp_path / "other.sqlite"
    assert of() is None


def test_without_a_history_the_command_says_what_to_do(campaign: Session, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", str(campaign.campaign.path)]) == Exit.USAGE
    assert "buran run" in capsys.readouterr().err
    assert main(["history", str(campaign.campaign.path), "--check", "0"]) == Exit.USAGE


# What is wrong with files


def damaged(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + b"nonsense" * 500)


def newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {store.SCHEMA + 1}")
        connection.execute("CREATE TABLE campaigns (id)")
        connection.commit()


def of_another_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE music (title)")
        connection.commit()


@pytest.mark.parametrize("wrong", [damaged, newer, of_another_program, Path.mkdir], ids=lambda each: each.__name__)
def test_a_history_that_cannot_be_used_is_one_note_and_stays(
    wrong: Any, record: Record, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.sqlite"
    wrong(path)
    before = path.read_bytes() if path.is_file() else None
    (note,) = record(path)
    assert str(path) in note and "\n" not in note
    assert before == (path.read_bytes() if path.is_file() else None)
    monkeypatch.chdir(tmp_path)
    assert main(["history"]) == Exit.ENVIRONMENT
    said = capsys.readouterr().err
    assert str(path) in said and "Traceback" not in said


def test_a_campaign_comes_to_its_end_all_the_same(campaign: Session, tmp_path: Path) -> None:
    blocked = campaign.campaign.folder.parent / "history.sqlite"
    blocked.mkdir()
    try:
        write_results(History.open(campaign), tmp_path / "report")
    finally:
        blocked.rmdir()
    assert "the history" in (tmp_path / "report" / "report.txt").read_text()
    assert json.loads((tmp_path / "report" / "report.json").read_text())["campaign"] == "sim"


def test_a_report_of_what_is_known_so_far_is_not_entered(campaign: Session, tmp_path: Path) -> None:
    history = History(campaign, campaign.id, len(History.open(campaign).plans) - 1, "it goes on")
    write_results(history, tmp_path / "report")
    assert not (campaign.campaign.folder.parent / "history.sqlite").exists()


def test_a_lock_is_waited_for_but_not_for_long(record: Record, entry: VersionEntry, tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    assert enter(path, entry) is None
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        (note,) = record(path)
        assert "locked" in note or "no answer" in note  # where this machine is busy
    assert record(path) == []


@pytest.fixture(scope="module")
def without_locks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that makes locks fail as on a network file system without a lock manager, or hang."""
    folder = tmp_path_factory.mktemp("locks")
    (folder / "locks.c").write_text(NO_LOCKS)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "locks.so", "locks.c"], cwd=folder, check=True)
    return folder / "locks.so"


@pytest.mark.mpi
@pytest.mark.parametrize("hangs", [False, True])
def test_a_file_system_without_locks_or_that_hangs_delays_nothing_for_long(
    hangs: bool, without_locks: Path, record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature, "LIMIT_S", 3.0 if hangs else 120.0)
    monkeypatch.setenv("LD_PRELOAD", str(without_locks))
    if hangs:
        monkeypatch.setenv("HANGS", "1")
    (note,) = record(tmp_path / "history.sqlite")
    assert ("no answer within 3 s" if hangs else "locked") in note


def test_a_home_that_cannot_be_written_or_is_missing_is_one_note(
    record: Record, entry: VersionEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").write_text("no folder")  # root may write into any folder
    path = history_file(None)
    assert path is not None
    why = enter(path, entry)
    assert why is not None and str(tmp_path / "home") in why
    monkeypatch.setattr(Path, "expanduser", no_home)
    (note,) = record(Path("~/history.sqlite"))
    assert "home" in note


def no_home(path: Path) -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_campaigns_that_write_at_once_are_all_entered(entry: VersionEntry, tmp_path: Path) -> None:
    path = tmp_path / "new" / "history.sqlite"
    entries = [VersionEntry(f"{number}", entry.columns, entry.content) for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda each: enter(path, each), entries)) == [None] * len(entries)
    assert sorted(each["key"] for each in entered(path)) == sorted(each.key for each in entries)


@pytest.fixture(scope="module")
def crowded(campaign: Session, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of 100 000 campaigns, half of them of one name."""
    path = tmp_path_factory.mktemp("crowded") / "history.sqlite"
    history = History.open(campaign)
    one = entry_of(history, gather(history), Path("without a table"))
    store.write(path, "first", one.columns, one.content)
    names = ", ".join((*store.COLUMNS[1:], "content"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            f"""WITH RECURSIVE numbers(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM numbers WHERE k < 99999)
            INSERT INTO campaigns (key, name, {names})
            SELECT 'k' || k, CASE k % 2 WHEN 0 THEN 'sim' ELSE 'other' || k % 97 END, {names} FROM campaigns, numbers"""
        )
        connection.commit()
    return path


@pytest.mark.parametrize("words", [[], ["FILE"], ["FILE", "--check", "20"]], ids=["names", "list", "check"])
def test_a_hundred_thousand_entries_take_no_longer(
    words: list[str], crowded: Path, campaign: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    session = campaign
    folder = session.layout.results(session.id)
    if not (folder / "report.txt").is_file():
        with not_synced():
            write_results(History.open(session), folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(feature.VARIABLE, str(crowded))
    arguments = ["history", *(str(session.campaign.path) if word == "FILE" else word for word in words)]
    began = time.process_time()
    assert main(arguments) in (Exit.DONE, Exit.CHANGED)
    assert time.process_time() - began < 1.5


def test_a_damaged_entry_is_named(entry: VersionEntry, tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    assert enter(path, entry) is None
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE campaigns SET content = 'nothing'")
        connection.commit()
    with pytest.raises(sqlite3.DatabaseError, match="damaged"):
        entered(path)


def test_the_program_that_writes_needs_nothing_but_python(entry: VersionEntry, tmp_path: Path) -> None:
    code = f"import sys; sys.argv = ['store']; import runpy; runpy.run_path({store.__file__!r}); " + (
        "assert not {'numpy', 'pydantic', 'yaml'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path).returncode == 0
