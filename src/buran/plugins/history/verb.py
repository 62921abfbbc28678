"""``buran history``: the versions of a program that were measured, and an alarm when the last one changed."""

from __future__ import annotations

import argparse
import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from buran.cli.arguments import CAMPAIGN_FILE, OF_RESULTS, add_campaign_file, add_loudness
from buran.cli.terminal import note, print_data, style, table
from buran.errors import Exit, StorageError, UsageError
from buran.plugins.history import store
from buran.wording import counted

if TYPE_CHECKING:
    from buran.campaign.config import Campaign
    from buran.plugins.history.check import CheckResult
    from buran.plugins.history.entry import Version, VersionColumns

HELP = "list the measured versions of a program with their predictions, or report what changed in this one"
_LAST, _ALARMS = 20, 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_campaign_file(parser, OF_RESULTS)
    parser.add_argument("--last", type=_number, default=_LAST, metavar="N", help=f"list N versions (default: {_LAST})")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.html", help="write them as a page with curves")
    text = "compare this version with the last N others: exit code 6 if an exact count changed, or a time is outside "
    parser.add_argument("--check", type=_number, metavar="N", help=f"{text}the 99 %% interval of those")
    parser.add_argument("--record", action="store_true", help="record this version, if `buran run` could not")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_loudness(parser)


def _number(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of versions, such as 10")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """List, check or record."""
    if arguments.check or arguments.record:
        return _of_this_version(arguments)
    from buran.campaign.layout import campaign_file
    from buran.campaign.load import load_campaign

    if arguments.file == CAMPAIGN_FILE and not arguments.file.exists():
        return _list_campaigns(arguments)
    campaign = load_campaign(campaign_file(arguments.file))
    path = _file(arguments, campaign)
    query = "SELECT * FROM campaigns WHERE name = ? ORDER BY id DESC LIMIT ?"
    entries = _read(path, query, campaign.name, arguments.last)[::-1]
    if not entries:
        hint = "`buran run` records it at its end, `buran history --record` a finished one"
        raise UsageError(f"no version of {campaign.name!r} is recorded", where=path, hint=hint)
    if arguments.json:
        print_data(json.dumps(entries, indent=2) + "\n")
    else:
        _show(entries, arguments.output)
    return Exit.DONE


def _file(arguments: argparse.Namespace, campaign: Campaign | None) -> Path:
    from buran.plugins.history.feature import KEY, VARIABLE, history_file

    path = history_file(campaign)
    if path is None:
        why = f"the key `{KEY}` or the variable {VARIABLE} is off, or the program is simulated"
        raise UsageError("this campaign has no history", why=why, hint=f"name a file as `{KEY}` or {VARIABLE}")
    if not path.exists() and not arguments.record:
        hint = f"`buran run` records what it finishes; name another file as `{KEY}` or {VARIABLE}"
        raise UsageError("nothing is recorded yet", where=path, why="there is no such file", hint=hint)
    return path


def _read(path: Path, query: str, *values: object) -> list[Any]:
    try:
        return store.read(path, query, values)
    except sqlite3.Error as error:
        hint = "try again if it is in use; if it is damaged, move it away, and `buran run` begins another one"
        raise StorageError("the history cannot be read", where=path, why=str(error), hint=hint) from error


def _list_campaigns(arguments: argparse.Namespace) -> int:
    query = """SELECT name, environment, number AS versions, recorded, version FROM campaigns JOIN (SELECT MAX(id) AS
    last, COUNT(*) AS number FROM campaigns GROUP BY name, environment) ON id = last ORDER BY id DESC"""
    rows = _read(_file(arguments, None), query)
    header = ("campaign", "environment", "versions", "last recorded", "last version")
    cells = [[*(row | {"recorded": _when(row)}).values()] for row in rows]
    shown = json.dumps(rows, indent=2) if arguments.json else table(header, cells, (2,))
    print_data(shown + "\n")
    return Exit.DONE


def _when(entry: Version) -> str:
    return entry["recorded"][:16].replace("T", " ")


def _show(entries: Sequence[Version], page: Path | None) -> None:
    from buran.plugins.history.curves import curves_of, page_of

    curves = curves_of(entries)
    if page is not None:
        from buran.files import write_text

        write_text(page, page_of(entries, curves))
        print(page)
        return
    rows = []
    for each in entries:
        numbers = ("" if each[end] is None else f"{each[end]:.4g}" for end in ("run_time", "lower", "upper"))
        rows.append(
            (_when(each), each["version"], each["environment"], each["target"], *numbers, f"{each['core_hours']:.4g}")
        )
    header = ("recorded", "version", "environment", "target", "run time (s)", "at least", "at most", "core hours")
    print(table(header, rows, right=(4, 5, 6, 7)))
    print(f"\n{style('predictions at ' + entries[-1]['target'], 'bold')}")
    shown = [(curve.title, curve.growth, curve.last, curve.sparkline) for curve in curves]
    print(table(("of", "growth", "last", "over versions"), shown, right=(2,)))


def _of_this_version(arguments: argparse.Namespace) -> int:
    """Record the finished campaign of a file, or compare it with the versions that were recorded before it."""
    from buran.cli.arguments import open_to_read
    from buran.plugins.history.check import check
    from buran.plugins.history.entry import entry_of
    from buran.plugins.history.feature import enter
    from buran.workflow.history import History
    from buran.workflow.report import gather
    from buran.workflow.views.changes import find_report

    session = open_to_read(arguments.file)
    path, folder = _file(arguments, session.campaign), find_report(session, earlier=False).folder
    history = History.open(session)
    entry = entry_of(history, gather(history), folder)
    if arguments.record:
        if (why := enter(path, entry)) is not None:
            raise StorageError("this version cannot be recorded", where=path, why=why, hint="correct it, and try again")
        print(f"recorded in {path}")
    if not arguments.check:
        return Exit.DONE
    query = """SELECT * FROM campaigns WHERE name = ? AND environment = ?
    AND id < IFNULL((SELECT id FROM campaigns WHERE key = ?), 9e18) ORDER BY id DESC LIMIT ?"""
    columns = entry.columns
    last = _read(path, query, columns["name"], columns["environment"], entry.key, arguments.check)
    checked = check({**columns, **entry.content}, last)
    if arguments.json:
        print_data(json.dumps({"version": columns["version"], **asdict(checked)}, indent=2) + "\n")
    else:
        _show_checked(columns, checked, len(last))
    return Exit.CHANGED if checked.alarms else Exit.DONE


def _show_checked(columns: VersionColumns, checked: CheckResult, others: int) -> None:
    for alarm in checked.alarms[:_ALARMS]:
        print(f"{style('changed', 'red')} {alarm}")
    if len(checked.alarms) > _ALARMS:
        print(f"... and {len(checked.alarms) - _ALARMS} more (--json has all)")
    said = counted(len(checked.alarms), "change") if checked.alarms else "no change"
    compared = f"{checked.counts} counts, {checked.times} times of {counted(others, 'earlier version')} compared"
    print(f"{style(columns['name'], 'bold')}, version {columns['version']}: {said}; {compared}")
    for text in checked.notes:
        note(text)
