"""Minutes from a checkout to a report, for programs of others, and what the report's head says.

python studies/benchmarks/first_contact.py CHECKOUTS OUT [--only CoMD ...] [--core-hours 0.1]

CHECKOUTS holds a checkout of each program, called as below. In OUT each gets a folder with its campaign, made by `buran
init --from` alone; programs whose size stands in an input file get one more line, `inputs`, which counts as an edit.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

GRID = "{=grid3(p, 1)}", "{=grid3(p, 2)}", "{=grid3(p, 3)}"


@dataclass(frozen=True)
class Code:
    """A program: how `buran init` is told about it, and its input file.

    Attributes
    ----------
    input, called
        File of the checkout that a run reads, and what the program calls it.
    filled
        Pattern and replacement, for sizes that stand in that file.
    """

    command: str
    sizes: str
    point: str
    options: tuple[str, ...] = ()
    input: str = ""
    called: str = ""
    filled: tuple[tuple[str, str], ...] = ()


CODES = {
    "CoMD": Code(
        f"{{binary}} -e -i {GRID[0]} -j {GRID[1]} -k {GRID[2]}"
        + "".join(f" -{axis} {{=n * grid3(p, {place})}}" for place, axis in enumerate("xyz", 1))
        + " -N 10 -n 10 -d {build}/pots",
        "8,10,12,14,16",
        "p=64,n=32",
        ("--makefile", "src-mpi/Makefile.vanilla"),
    ),
    "miniAMR": Code(
        f"{{binary}} --nx {{n}} --ny {{n}} --nz {{n}} --npx {GRID[0]} --npy {GRID[1]} --npz {GRID[2]}"
        + " --num_vars 10 --num_tsteps 4 --num_refine 2 --max_blocks 1000 --num_objects 1"
        + " --object 2 0 -1.71 -1.71 -1.71 0.04 0.04 0.04 1.7 1.7 1.7 0.0 0.0 0.0",
        "4,6,8,10,12",
        "p=64,n=24",
        ("--makefile", "ref/Makefile"),
    ),
    "CloverLeaf_ref": Code(
        "{binary}",
        "20,40,60,80,120",
        "p=64,n=1000",
        input="InputDecks/clover_bm_short.in",
        called="clover.in",
        filled=((r"(?m)([xy])_cells=\d+", r"\1_cells={n}"), (r"end_step=\d+", "end_step=20")),
    ),
    "branson": Code(
        "{binary} hot_zone_input.xml",
        "1000,2000,4000,8000,16000",
        "p=64,n=100000",
        input="inputs/hot_zone_input.xml",
        called="hot_zone_input.xml",
        filled=(
            (r"<photons>\d+", "<photons>{n}"),
            (r"<t_stop>[\d.]+", "<t_stop>0.04"),
            ("<write_silo>TRUE", "<write_silo>FALSE"),
            (r"(<n_[xy]_cells>)195", r"\g<1>25"),
        ),
    ),
    "MrBayes": Code(
        "{binary} primates.nex",
        "500,1000,2000,4000,8000",
        "p=8,n=100000",
        input="examples/primates.nex",
        called="primates.nex",
        filled=(
            (
                r"(?s)\Z",
                "\nbegin mrbayes;\n  set autoclose=yes nowarnings=yes;\n  lset nst=6 rates=gamma;\n"
                "  mcmc ngen={n} nruns=2 nchains=4 printfreq=1000 samplefreq=500 diagnfreq=1000;\n  quit;\nend;\n",
            ),
        ),
    ),
}


def main() -> int:
    """Run the campaigns one after the other, and print a line and a head for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", choices=sorted(CODES), default=sorted(CODES))
    parser.add_argument("--core-hours", default="0.1")
    arguments = parser.parse_args()
    buran = [sys.executable, "-m", "buran.cli"]
    for name in arguments.only:
        code, folder = CODES[name], arguments.out / name
        start = time.monotonic()
        told = ["--run", code.command, "--ranks", "1,2,4", "--size", f"n={code.sizes}", "--point", code.point]
        init = [*buran, "init", str(folder), "--from", str(arguments.checkouts / name), "--yes", *told, *code.options]
        subprocess.run([*init, "--core-hours", arguments.core_hours], check=True)
        edits = (folder / "campaign.yaml").read_text().count("# <-")
        if code.input:
            _give_input(code, arguments.checkouts / name, folder)
            edits += 1
        made = time.monotonic() - start
        subprocess.run([*buran, "run"], cwd=folder, check=False)
        minutes = (time.monotonic() - start) / 60
        print(f"\n{name}: {minutes:.1f} minutes, {made:.0f} s of them for init; {edits} edits by hand\n", flush=True)
        subprocess.run([*buran, "report"], cwd=folder, check=False)
    return 0


def _give_input(code: Code, checkout: Path, folder: Path) -> None:
    """Put a program's input file beside its campaign, its size written as a placeholder, and name it there."""
    text = (checkout / code.input).read_text()
    for pattern, replacement in code.filled:
        text = re.sub(pattern, replacement, text)
    (folder / code.called).write_text(text)
    campaign = folder / "campaign.yaml"
    line = f"  inputs: [{{path: {code.called}, fill: true}}]\n"
    campaign.write_text(re.sub(r"(?m)^  run: .*\n", lambda match: match[0] + line, campaign.read_text()))


if __name__ == "__main__":
    sys.exit(main())
