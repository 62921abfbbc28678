"""A small simulated campaign, end to end, under users, environments and file systems that differ from the usual.

    python studies/benchmarks/surroundings.py [--folder DIR] [NAME...]

Each goes through check, run, run again, report, filter, status and verify. Other users and mounts need root; what
cannot be had is said. File systems without locks or hard links are made by a preloaded library (failing_calls.c) that
has flock and link fail below the campaign's folder; tmpfs and overlay are real mounts.
"""

from __future__ import annotations

import argparse
import errno
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from buran_studies.kills.campaign import write_campaign

STEPS = ("check", "run", "run", "report", "filter", "status", "verify")
_SHIM = Path(__file__).with_name("failing_calls.c")


@dataclass
class Surroundings:
    """Where and as whom a campaign runs.

    Attributes
    ----------
    unset
        Names of variables that it has not.
    refusal
        Words by which `buran run` has to refuse it; None where it has to work.
    undo
        Called when it is done.
    """

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    umask: int = 0o022
    user: str | None = None
    refusal: str | None = None
    undo: Callable[[], object] = lambda: None


def _locale(folder: Path) -> Surroundings:
    """Make a locale with decimal commas; not every system has one."""
    made = folder / "locales" / "de_DE.UTF-8"
    made.parent.mkdir()
    subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", str(made)], check=True, capture_output=True)
    return Surroundings(folder / "c", {"LOCPATH": str(made.parent), "LC_ALL": "de_DE.UTF-8"})


def _without(folder: Path, calls: str, code: int, refusal: str | None = None) -> Surroundings:
    library = folder / "failing_calls.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(_SHIM), "-ldl"], check=True)
    shim = {"LD_PRELOAD": str(library), "FAILING_CALLS": calls, "FAILING_ERRNO": str(code)}
    return Surroundings(folder / "c", {**shim, "FAILING_BELOW": str(folder / "c")}, refusal=refusal)


def _mounted(folder: Path, *words: str) -> Surroundings:
    place = folder / "mounted"
    for name in ("lower", "upper", "work", "mounted"):
        (folder / name).mkdir()
    subprocess.run(["mount", *(word.format(folder=folder) for word in words), str(place)], check=True)
    return Surroundings(place / "c", undo=lambda: subprocess.run(["umount", "-l", str(place)], check=False))


def _of_nobody(folder: Path) -> Surroundings:
    """Use a folder that root made and that all may write to."""
    folder.chmod(0o777)
    return Surroundings(folder / "c", {"HOME": "/nonexistent"}, user="nobody")


SURROUNDINGS: Mapping[str, Callable[[Path], Surroundings]] = {
    "as it is": lambda folder: Surroundings(folder / "c"),
    "another user (nobody) in a folder that root made": _of_nobody,
    "umask 077": lambda folder: Surroundings(folder / "c", umask=0o077),
    "umask 000": lambda folder: Surroundings(folder / "c", umask=0),
    "HOME unset": lambda folder: Surroundings(folder / "c", unset=("HOME", "USER", "LOGNAME")),
    "LANG=C": lambda folder: Surroundings(folder / "c", {"LANG": "C", "LC_ALL": "C"}),
    "a locale with decimal commas": _locale,
    "TZ=Australia/Lord_Howe": lambda folder: Surroundings(folder / "c", {"TZ": "Australia/Lord_Howe"}),
    "TZ that is none": lambda folder: Surroundings(folder / "c", {"TZ": ":/no/such"}),
    "no flock": lambda folder: _without(folder, "flock", errno.ENOSYS),
    "no hard links": lambda folder: _without(folder, "link", errno.EPERM, "no hard links"),
    "tmpfs": lambda folder: _mounted(folder, "-t", "tmpfs", "tmpfs"),
    "overlay": lambda folder: _mounted(
        folder,
        "-t",
        "overlay",
        "overlay",
        "-o",
        "lowerdir={folder}/lower,upperdir={folder}/upper,workdir={folder}/work",
    ),
    "a path with a newline": lambda folder: Surroundings(folder / "two\nlines" / "c"),
    "a path with blanks, quotes and braces": lambda folder: Surroundings(folder / 'it\'s {a} "$b" c'),
}


def _tried(make: Callable[[Path], Surroundings], base: Path) -> str:
    """Carry a campaign out; return what came of it in words."""
    try:
        there = make(base)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"not tried: {error}"
    environment = {name: value for name, value in os.environ.items() if name not in there.unset}
    environment |= {"BURAN_LOCK_FOLDER": str(base / "lock"), "NO_COLOR": "1", **there.variables}
    user = None if there.user is None else pwd.getpwnam(there.user)

    def call(verb: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "buran.cli", verb, "campaign.yaml"], cwd=there.folder, env=environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, umask=there.umask, errors="replace",
            user=user and user.pw_uid, group=user and user.pw_gid,
        )  # fmt: skip

    try:
        there.folder.parent.mkdir(exist_ok=True)
        write_campaign(there.folder, measured=False)
        if user is not None:
            there.folder.chmod(0o777)
        for verb in STEPS:
            done = call(verb)
            said = f"{done.stdout}\n{done.stderr}"
            if verb == "run" and there.refusal is not None:
                log = next((there.folder / "results").glob("*/logs/snakemake.log"), None)
                said += "" if log is None else log.read_text(errors="replace")
                is_refused = done.returncode not in (0, 70) and there.refusal in said and "Traceback" not in done.stderr
                return f"refused: {there.refusal}" if is_refused else f"fell at {verb}: {said[-2000:]}"
            if done.returncode or "Traceback" in said:
                return f"fell at {verb}, exit code {done.returncode}: {said[-2000:]}"
        return "works"
    finally:
        there.undo()


def main() -> int:
    """Try all that were asked for; return 1 if one fell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where campaigns are made (default: a temporary folder)")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(SURROUNDINGS)}")
    arguments = parser.parse_args()
    fell = 0
    for name in arguments.names or SURROUNDINGS:
        base = Path(tempfile.mkdtemp(prefix="buran-surroundings-", dir=arguments.folder))
        base.chmod(0o755)
        result = _tried(SURROUNDINGS[name], base)
        fell += result.startswith("fell")
        print(f"{name}: {result}", flush=True)
        shutil.rmtree(base, ignore_errors=True)
    return int(fell > 0)


if __name__ == "__main__":
    sys.exit(main())
