"""Visits that the handlers of a real program's signals lose are said in the report, with their number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from buran.campaign.plan import Mode
from buran.files import not_synced
from buran.workflow.history import History, in_store
from buran.workflow.report import link_latest, write_results
from buran.workflow.session import open_session
from buran_studies.simulate.in_process import carry_out

PROGRAM = r"""
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

__attribute__((noinline)) long work(long n) {
    volatile long sum = 0;
    for (long i = 0; i < n; i++)
        sum = sum + i;
    return sum;
}

__attribute__((noinline)) void on_signal(int number) { work(number); }

int main(int argc, char **argv) {
    struct sigaction action = {.sa_handler = on_signal};
    struct itimerval often = {{0, 30}, {0, 30}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (long i = argc > 1 ? atol(argv[1]) : 0; i > 0; i--)
        work(1);
    setitimer(ITIMER_REAL, &never, NULL);
    return 0;
}
"""
"""Nearly all of its time are hooks, so nearly every signal meets one."""


@pytest.mark.mpi
@pytest.mark.slow
def test_visits_that_signal_handlers_lose_are_in_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURAN_LOCK_FOLDER", str(tmp_path / "lock"))
    source = tmp_path / "source"
    source.mkdir()
    (source / "busy.c").write_text(PROGRAM)
    campaign = {
        "name": "lost",
        "program": {
            "source": "source",
            "build": "{mpicc} {flags} -o busy busy.c",
            "flags": "-O2",
            "binary": "busy",
            "run": "{binary} {n}",
        },
        "parameters": {"n": {"role": "size", "values": [2_000_000, 3_000_000, 4_000_000]}},
        "resources": {"ranks": 1, "time_limit": 1800},
        "repetitions": 1,
        "warmup": False,
        "refinement": {"enabled": False},
    }
    (tmp_path / "campaign.yaml").write_text(yaml.safe_dump(campaign))
    session = open_session(tmp_path / "campaign.yaml")
    with not_synced():
        carry_out(session)
        write_results(History.open(session), session.layout.results(session.id))
        link_latest(session)
    history = History.open(session)
    lost = [(run.mode, history.run_record(run.folder).lost_visits) for run in in_store(history.runs)]
    counts = [count for _, count in lost if count]
    assert counts, "no signal has met a hook"
    assert all(count is None for mode, count in lost if mode is Mode.VANILLA)
    for name in ("report.txt", "report.html"):
        words = re.sub(r"\s+", " ", (session.layout.results(session.id) / name).read_text())
        assert f"{len(counts)} of {len(lost)} runs" in words and f"up to {max(counts):,} in one" in words, name
