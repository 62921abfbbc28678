"""``buran rerun``: repeat the campaign of a crate here, and say what is not as it was there."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from buran.cli.arguments import add_loudness, add_profile
from buran.errors import UsageError

HELP = "repeat the campaign of an RO-Crate (from `buran convert`), and show what differs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("crate", metavar="CRATE", type=Path, help="folder with ro-crate-metadata.json")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="new folder for the campaign and its results")
    add_profile(parser)
    add_loudness(parser)


def run(arguments: argparse.Namespace) -> int:
    """Copy campaign file and sources, measure, compare the environments."""
    from buran.cli.run import drive
    from buran.plugins.crate.crate import (
        CAMPAIGN,
        METADATA,
        RESULTS,
        SOURCE,
        STORE,
        differences_in_words,
        environment_facts,
    )
    from buran.workflow.session import open_session

    crate, folder = arguments.crate, arguments.folder
    for name in (METADATA, CAMPAIGN, SOURCE, STORE):
        if not (crate / name).exists():
            hint = "make one: buran convert results/NAME CRATE"
            raise UsageError("this is no crate of a campaign", where=crate, why=f"there is no {name}", hint=hint)
    file = folder / CAMPAIGN
    if not file.exists() and folder.exists() and any(folder.iterdir()):
        raise UsageError("the folder is not empty", where=folder, hint="name a new folder")
    if file.exists() and file.read_bytes() != (crate / CAMPAIGN).read_bytes():
        raise UsageError("another campaign than the crate's is there", where=file, hint="name a new folder")
    if not file.exists():
        shutil.copytree(crate / SOURCE, folder / SOURCE)
        shutil.copy2(crate / CAMPAIGN, file)
    session = open_session(file)
    code = drive(session, profile=arguments.profile, extra=[])
    there, current = environment_facts(crate / STORE), environment_facts(session.layout.store)
    different = differences_in_words(there, current)
    print("not as it was there:" if different else "compiler, MPI, flags, sources and machine are as they were there")
    for line in different:
        print(f"  {line}")
    print(f"next: buran report {file} --compare {crate / RESULTS}")
    return code
