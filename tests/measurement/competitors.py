"""What processes do that compete for claims. They start in moments: none of what the tests themselves need is here."""

from __future__ import annotations

import os
import time
from pathlib import Path

from buran.campaign.records import Record, RunKey, Status
from buran.measurement.store import claims, store
from patience import PATIENCE_S


def fill(folder: Path, status: Status = Status.MEASURED, content: str = "x") -> None:
    (folder / "stdout.log").write_text(content)
    Record(status=status).write(folder)


def slot_in(folder: Path, generation: int = 0) -> store.Slot:
    return store.Slot(folder, RunKey("b", "n=1", "c", "rep-00", generation))


def hold(point: Path, ready: str) -> None:
    with store.reserve(slot_in(point)) as folder:
        assert folder is not None
        (folder / "stdout.log").write_text("half a run")
        Path(ready).touch()
        time.sleep(PATIENCE_S)


def count_up(folder: Path, total: int) -> None:
    for number in range(total):
        slot = slot_in(folder / str(number))
        with store.reserve(slot) as temporary:
            if temporary is not None:
                with (folder / "started").open("a") as file:
                    file.write(f"{number}\n")
                time.sleep(0.005)
                fill(temporary)
                store.commit(slot, temporary)


def take_over(folder: Path, rounds: int) -> None:
    for number in range(rounds):
        with claims.claimed(folder / f"{number}.claim"):
            inside = os.open(folder / f"{number}.inside", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            with (folder / "log").open("a") as log:
                log.write(f"{number}\n")
            os.close(inside)
            (folder / f"{number}.inside").unlink()
