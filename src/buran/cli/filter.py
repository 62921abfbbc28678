"""``buran filter``: lists of functions worth instrumenting, printed, made and checked."""

from __future__ import annotations

import argparse
from pathlib import Path

from buran.cli.arguments import CAMPAIGN_FILE, add_campaign_file, add_loudness, named_numbers
from buran.cli.terminal import note, print_data
from buran.errors import Exit, UsageError
from buran.files import write_text

HELP = "print, check or make lists of functions worth instrumenting"
FORMATS = ("scorep", "tau", "plain", "xray", "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_campaign_file(parser, f": its newest filter (default: {CAMPAIGN_FILE})", None)
    parser.add_argument("-o", "--output", type=Path, help="write there instead of printing")
    parser.add_argument("--format", choices=FORMATS, default="scorep", help="of the list (default scorep)")
    parser.add_argument("--json", action="store_true", help="same as --format json")
    source = parser.add_argument_group("from elsewhere than a campaign")
    source.add_argument("--from", dest="experiment", type=Path, metavar="EXPERIMENT", help="measurements to model")
    source.add_argument("--callgraph", type=Path, metavar="CG", help="static.jsonl of a build, or a MetaCG file")
    choice = parser.add_argument_group("how functions are chosen from measurements")
    choice.add_argument("--target", metavar="P=64,N=512", help="point of interest (default: largest values)")
    choice.add_argument("--share", type=float, default=0.01, help="least share of the predicted time (default 0.01)")
    choice.add_argument("--overhead", type=float, default=5.0, metavar="PERCENT", help="allowed overhead (default 5)")
    choice.add_argument("--visit-cost", type=float, metavar="NS", help="of one visit, in ns (default 60)")
    choice.add_argument("--constants", action="store_true", help="also keep functions whose time does not grow")
    choice.add_argument("--keep", metavar="PATTERN", action="append", default=[], help="always keep")
    choice.add_argument("--drop", metavar="PATTERN", action="append", default=[], help="always drop")
    verbs = parser.add_argument_group("instead of that")
    verbs.add_argument("--select", metavar="QUERY", help="functions of the call graph, such as 'loops(2) - inline'")
    verbs.add_argument("--check", type=Path, metavar="FILTER", help="show what a Score-P filter lets through")
    add_loudness(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print or write a list, or what is to be said of filters."""
    from buran.workflow.views import filters

    if arguments.json:
        arguments.format = "json"
    others = ("experiment", "callgraph", "select", "check")
    if arguments.file is None and not any(getattr(arguments, name) for name in others):
        arguments.file = CAMPAIGN_FILE
    universe = filters.Universe.open(arguments.file, arguments.experiment, arguments.callgraph)
    for remark in universe.remarks:
        note(remark)
    if arguments.check:
        text, fine = filters.check(arguments.check, universe)
        put(text, arguments.output)
        return int(Exit.DONE if fine else Exit.SOME_RUNS_FAILED)
    if not (arguments.file or arguments.experiment or arguments.select):
        raise UsageError(
            "nothing to make a list from",
            hint="name a campaign file, or --from EXPERIMENT; or --callgraph CG with --select QUERY",
        )
    request = filters.Request(
        target=named_numbers(arguments.target, "P=64,N=512", "--target", known=None) if arguments.target else None,
        share=arguments.share,
        overhead=arguments.overhead,
        visit_cost=None if arguments.visit_cost is None else arguments.visit_cost * 1e-9,
        constants=arguments.constants,
        select=arguments.select,
        keep=tuple(arguments.keep),
        drop=tuple(arguments.drop),
    )
    text = filters.make(universe, request, arguments.format)
    if arguments.output:
        write_text(arguments.output, text)
        print(f"written: {arguments.output}")
    else:
        print_data(text)
    return 0


def put(text: str, output: Path | None) -> None:
    """Print a text, or write it."""
    if output is None:
        print(text, end="")
    else:
        write_text(output, text)
