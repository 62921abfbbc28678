"""``buran generate``: programs of known complexity."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "write C++ and MPI programs of known complexity, with the ground truth"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("spec", nargs="?", type=Path, metavar="SPEC.yaml", help="description of a program")
    parser.add_argument("--functions", type=int, metavar="N", help="draw this many functions instead")
    parser.add_argument("--seed", type=int, default=0, help="seed of random numbers (default 0)")
    parser.add_argument("--per-program", type=int, metavar="K", help="functions per program (default all in one)")
    parser.add_argument("--name", default="synthetic", help="of the drawn programs (default synthetic)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder to write to")


def run(arguments: argparse.Namespace) -> int:
    """Write the programs; refuse to overwrite any file."""
    from buran.errors import Exit, UsageError
    from buran_studies.generator.program import split, write_program
    from buran_studies.generator.spec import random_spec, read_spec

    if (arguments.spec is None) == (arguments.functions is None):
        raise UsageError(
            "name a description, or how many functions to draw", hint="buran generate --functions 200 -o DIR"
        )
    if arguments.spec is not None:
        spec = read_spec(arguments.spec)
    else:
        if arguments.seed < 0:
            raise UsageError("a seed is a number from 0", why=f"it is {arguments.seed}")
        spec = random_spec(arguments.name, arguments.functions, arguments.seed)
    programs = split(spec, len(spec.kernels) if arguments.per_program is None else arguments.per_program)
    for program in programs:
        folder = arguments.output if len(programs) == 1 else arguments.output / program.name
        write_program(program, folder)
        print(f"wrote {folder}: {len(program.kernels)} functions")
    first = arguments.output if len(programs) == 1 else arguments.output / programs[0].name
    print(f"next: buran run {first / 'campaign.yaml'}")
    return int(Exit.DONE)
