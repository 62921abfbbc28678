"""What the commands of pages must print, or leave behind: a pattern for each ``sh`` block that is run.

Blocks of ``console`` have their output on the page. Those of ``sh`` stand here by page and first command.
"""

from __future__ import annotations

DONE = r"^done: \d+ runs measured, 0 failed.*^report: results/"
FASTER = "s/name: rehearsal/name: faster/; s/bandwidth_gb_s: 12.5/bandwidth_gb_s: 25/"

RESULTS: dict[str, dict[str, str]] = {
    "choose-points.md": {
        "buran suggest measured.txt --metric time --processes p --at p=8,n=3000 --budget 80% -n 5": (
            r"expected error of the prediction at p=8, n=3000.*(p = \d+, n = \d+ .*){5}"
        ),
        "buran suggest measured.txt --metric time --processes p --values p=4,8,16,32 --values n=1000,3000,5000": (
            r"measured points lie outside.*p = (4|8|16|32), n = \d000 "
        ),
    },
    "compare-versions.md": {
        "buran report new/campaign.yaml --compare old/campaign.yaml": r"with bodies \(old.*none differ.*energy +the s",
        "buran report campaign.yaml --compare kept/ --fail-on grown:10%,class,effort": r"bodies \(kept\).*none differ",
    },
    "correct-a-model.md": {
        "buran correct exchange.yaml data.csv -o exchange.json": r"^exchange: .*time = .*alpha = .*beta = ",
        "buran correct exchange.yaml data.csv --case terms --format latex": r"^t = .*\\frac.*^4096 +2048 +0\.0",
    },
    "filter-lists.md": {
        "buran filter campaign.yaml -o scorep.filter": (
            r"^written: scorep.filter.*MANGLED energy.*INCLUDE_LIST.*fun:energy.*\"energy\""
        ),
        "buran filter --from runs/ --callgraph static.jsonl --target p=1024,n=512 -o scorep.filter": "^written: scorep",
        "buran filter --callgraph static.jsonl --select 'paths_to(name(\"MPI_*\")) - inline'": (
            r"^# selected: paths_to.*INCLUDE MANGLED over_ranks.*^# selected: name\(\"Calc"
        ),
        "buran filter campaign.yaml --check scorep.filter": (
            r"(no syntax error\nlets \d of \d functions through\n.*){2}"
        ),
    },
    "generate-benchmarks.md": {
        "buran generate --functions 200 --seed 1 -o DIR": r"^wrote DIR: 200 functions.*^campaign: synth.*points: +25 ",
        "buran generate mine.yaml -o mine": r"^wrote mine: 1 functions.*^campaign: mine",
    },
    "many-parameters.md": {
        "buran model --kind cpr runs.csv -o solver.npz": (
            r"^300 observations of time over nx, ny, solver, threads.*^100 +90 +cg +16 +0\.0"
        ),
        "buran model --kind cpr runs.csv -o solver.npz --extrapolate nx,ny": "^beyond the measured.*^written to s",
    },
    "measure-energy.md": {
        "buran doctor": r"^\w+ +Python .*^\w+ +energy.*^campaign: ",
    },
    "measure-on-a-cluster.md": {
        "buran plan campaign.yaml": r"^iteration 0: .*expected cost: .*^campaign bodies: done",
    },
    "measure-with-other-tools.md": {
        "buran check measured.yaml": "^campaign: measured .*^points: +25 for modelling",
    },
    "predict-for-another-machine.md": {
        "buran run what-if.yaml": DONE,
        "buran predict what-if.yaml --machine other.json --at n=1200 --at n=6000": (
            r"^run time in s on other.*^1200 +\d.*^6000 +\d.*of it at n = 6000:"
        ),
    },
    "real-codes.md": {
        "export BURAN_MODE=effort": r"^buran-mpicc -O2 -o bodies.*^energy -\d",
    },
    "run-and-resume.md": {
        "buran run campaign.yaml": f"nothing is left to do.*{DONE}",
        "buran run campaign.yaml --retry-failed": f"nothing is left to do.*{DONE}",
        "buran run campaign.yaml --remeasure p=2,n=600": DONE,
        "buran verify campaign.yaml": r"^\d+ runs.*\b0 problems|0 problems",
        "sed -i 's/2400, 3000\\]/2400, 3000, 3600]/' campaign.yaml": r"n=3600.*new runs|new runs.*n=3600",
    },
    "simulate.md": {
        "buran simulate campaign.yaml --program program.yaml --budget 20": r"^in total .*predicted +true",
    },
    "simulated-machine.md": {
        "buran run campaign.yaml": rf"{DONE}.*^Buran report: ",
        "buran run measured.yaml": DONE,
        "buran run calibrated.yaml": rf"{DONE}.*^Buran report: ",
        f"sed '{FASTER}' campaign.yaml >faster.yaml": rf"{DONE}.*^Comparison: faster",
        "buran run networks.yaml": rf"{DONE}.*^Buran report: ",
        "sed 's/name: before/name: after/; s/-O2/-O2 -DCHANGED/' before.yaml >after.yaml": rf"{DONE}.*{DONE}",
    },
    "start-from-your-project.md": {
        'buran init campaign --from solver --run "{binary} {n}"': "^wrote campaign/campaign.yaml.*^campaign: ",
        "cd ..": r"^wrote scaling/campaign.yaml.*^budget: +1 core hours",
    },
    "system-files.md": {
        "buran doctor --write-system hawk": "^wrote .*hawk.yaml: correct it",
    },
    "watch-over-versions.md": {
        "buran history": r"^run time +\S+ .*time: energy.*history\.html.*^bodies, version ",
    },
    "write-a-campaign.md": {
        "buran init my-campaign": "^wrote my-campaign/campaign.yaml.*^wrote demo/campaign.yaml and demo/bodies/",
        "buran check campaign.yaml": "^campaign: bodies ",
    },
    "demo.md": {
        "cd demo": r"^campaign: bodies .*points: +25 .*^iteration 0: .*3 builds, 11 points, 66 runs",
        'sed \'s/^name: .*/name: mended/; s/"-O2"/"-O2 -DMENDED"/\' campaign.yaml > mended.yaml': "^campaign: mended ",
    },
    "your-own-program.md": {
        "buran report --html": r"/results/bodies/.*report\.html$",
    },
}


def first_command(text: str) -> str:
    """Return the first command of a block, without what a comment says of it."""
    return text.splitlines()[0].partition("  #")[0].strip()
