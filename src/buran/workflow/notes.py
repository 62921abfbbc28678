"""What a report says of its numbers in notes: what is missing, shared cores, and what models were made from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from statistics import median

from buran.campaign.config import Campaign
from buran.campaign.launcher import usable_cores
from buran.campaign.mistakes import listed
from buran.campaign.plan import Mode, Purpose
from buran.campaign.point import Point, Value
from buran.campaign.records import RunRecord
from buran.features import FEATURES
from buran.measurement.machine.machine import disturbances
from buran.modeling.numerics.tuning import MATTERS
from buran.modeling.priors.steps import Repeats
from buran.profiles.metrics import METRICS
from buran.profiles.startup import is_startup_or_shutdown
from buran.reporting.summary import AccountItem, simulated
from buran.wording import counted
from buran.workflow import program
from buran.workflow.findings import Findings
from buran.workflow.history import FinishedRun, History, baseline, in_store
from buran.workflow.overhead import missed_limit
from buran.workflow.views.changes import lost_in_words

_LEAST_SHARE = 0.95  # of the wall-clock time of computation that its CPU time is on a core of its own
_COMPARABLE = 0.9  # likewise, of runs whose wall-clock time is compared with a prediction
_MOST_STOLEN = 0.01  # of a run's cores, by the host of a virtual machine


def notes_of(history: History, findings: Findings, account: Sequence[AccountItem]) -> list[str]:
    """Return what deserves a word: of the store, the machine, the campaign file and each build, every sentence once.

    Parameters
    ----------
    account
        What the core hours went into.
    """
    session = history.session
    notes = [*session.target.notes, *session.campaign.notes]
    notes += [note for record in history.build_records for note in record.notes]
    notes += [*_missing_counters(history), *_missing_metrics(history), *_lost_visits(history)]
    notes += [note for feature in FEATURES if feature.notes is not None for note in feature.notes(history)]
    notes += _builds_of_models(history, findings)
    return [
        *lost_in_words(history, history.runs),
        *_of_other_versions(account),
        *dict.fromkeys(notes),
        *_without_work(findings),
        *_repeated(findings, session.campaign),
        *_kind(findings, session.campaign),
        *_side_by_side(history),
        *(() if session.campaign.simulated_on else sharing(history)),
        *([f"{words}."] if (words := missed_limit(history, findings.iteration)) else []),
    ]


def _missing_counters(history: History) -> list[str]:
    """Say which counters the campaign asks for in vain, and why."""
    if not history.session.campaign.config.counters:
        return []
    wanted = in_store(run for run in history.runs if run.mode is Mode.TIME)
    reasons = {history.run_record(run.folder).counters_unavailable for run in wanted}
    return sorted(f"Counters that are not available (key counters): {reason}." for reason in reasons if reason)


def _missing_metrics(history: History) -> list[str]:
    """Say which metrics of the core the campaign file requests in vain; plug-ins speak of theirs."""
    is_written = "metrics" in history.session.campaign.config.model_fields_set
    missing = not_measured(history, METRICS) if is_written else []
    return (
        [f"No run has {', '.join(missing)} (key metrics): this way of measuring does not count it."] if missing else []
    )


def _lost_visits(history: History) -> list[str]:
    """Say how many visits are in no count, and in how many runs."""
    lost = [history.run_record(run.folder).lost_visits for run in in_store(history.runs)]
    counts = [count for count in lost if count]
    if not counts:
        return []
    return [
        f"{len(counts)} of {len(lost)} runs lost visits, up to {max(counts):,} in one: instrumented signal handlers "
        "interrupted the instrumentation; what they called then is in no count, and its time is the interrupted "
        "function's. If the counts matter, do not instrument the handlers (key refinement.drop)."
    ]


def not_measured(history: History, names: Collection[str]) -> list[str]:
    """Return the metrics among these that a campaign asks for and no run has."""
    requested = [name for name in history.session.campaign.config.metrics if name in names]
    table = history.table(history.plans[-1].iteration - 1) if requested else None
    return [] if table is None else [name for name in requested if name not in table.values]


def _of_other_versions(account: Sequence[AccountItem]) -> list[str]:
    """Say how many runs this version of the campaign does not ask for."""
    runs = sum(item.runs for item in account if item.phase == "other versions")
    if not runs:
        return []
    return [
        f"The campaign file changed: {runs} runs of the store were made for other versions of it and are not in these "
        "models; those that this version asks for too are."
    ]


def _builds_of_models(history: History, findings: Findings) -> list[str]:
    """Say which builds' times models take, and what becomes of others."""
    plans, last = history.plans, history.plans[-1].filter_text
    runs = [run for run in history.runs if run.mode is Mode.TIME]
    used = sum(run.filter_text == last for run in runs if run.purpose is Purpose.MODEL)
    other_runs = sum(run.filter_text != last for run in runs)
    counting = sum(run.mode is Mode.EFFORT and run.purpose is Purpose.MODEL for run in history.runs)
    if findings.pooled is not None and "proven" in findings.pooled:
        other_runs += counting
    if not other_runs or not used:
        return []
    builds = sorted({b.hash for plan in plans for b in plan.builds if b.mode is Mode.TIME and b.filter_text == last})
    which = f"build {builds[0]}" if len(builds) == 1 else f"{len(builds)} builds under the last filter"
    sentence = f"Models of time take the {used} runs of {which}"
    if findings.pooled is None:
        return [f"{sentence}; {other_runs} runs under other filters are not mixed in."]
    account = findings.pooled
    cost, uncertainty = f"{1e9 * account['visit_cost_s']:.3g} ns", f"{1e9 * account['visit_cost_uncertainty_s']:.2g} ns"
    return [
        f"{sentence} and {account['runs']} of {other_runs} runs under other filters or with counts, without what "
        f"counting and the instrumentation that is gone have cost, {cost} a visit within {uncertainty}: at most "
        f"{100 * account['largest_share']:.2g} % of a corrected time, "
        f"{100 * account['largest_uncertainty']:.2g} % uncertain; {account['left_out']} times of theirs were left out."
    ]


def _kind(findings: Findings, campaign: Campaign) -> list[str]:
    kind, reason = findings.program_model
    if kind != "cpr":
        return [f"The run time of the program is modelled in normal form: {reason}."] if reason else []
    sentences = [f"A tensor model (latest/{program.FILE}) predicts the run time of the program: {reason}."]
    if campaign.choices:
        at = ", ".join(f"{name} = {campaign.target[name]}" for name in campaign.choices)
        sentences.append(f"Models of call paths are for {at}.")
    return sentences


def _side_by_side(history: History) -> list[str]:
    """Say how long runs take with other choices than the target's, at points that are else the same."""
    campaign, notes = history.session.campaign, list[str]()
    if not campaign.choices:
        return notes
    seconds = baseline(history.runs, Purpose.MODEL)
    for name in campaign.choices:
        ours, ratios = campaign.target[name], dict[Value, list[float]]()
        for point, taken in seconds.items():
            reference_s = seconds.get(Point.of({**point, name: ours}))
            if reference_s is not None and point[name] != ours:
                ratios.setdefault(point[name], []).append(median(taken) / median(reference_s))
        said = [
            f"{value}: {median(each):.3g} times as long ({min(each):.3g} to {max(each):.3g} at "
            f"{counted(len(each), 'point')})"
            for value, each in ratios.items()
        ]
        if said:
            notes.append(f"Compared with {name} = {ours}, without instrumentation: {'; '.join(said)}.")
    return notes


def _without_work(findings: Findings) -> list[str]:
    """Say that runs are start-up alone: a program that does not find its input may end without an error."""
    starting = is_startup_or_shutdown(findings.tree.names).tolist()
    work = [most_s for (_, most_s), start in zip(findings.extremes_s, starting, strict=False) if not start]
    if not work or sum(work) >= MATTERS * findings.shortest_run_s:
        return []
    return [
        f"Without start-up, call paths take {sum(work):.2g} s where they take most, and the shortest run "
        f"{findings.shortest_run_s:.2g} s: its log (stdout.log in the store) says whether the program found its input."
    ]


def _repeated(findings: Findings, campaign: Campaign) -> list[str]:
    """Say for each parameter of the role steps which call paths counts prove to repeat their work."""
    out = []
    for name in campaign.steps:
        if name in findings.not_repeated:
            out.append(
                f"Counts refute that {name} only repeats work, so that runs of few steps are in no model. Not linear "
                f"in it, those with most work first: {listed(findings.not_repeated[name])}."
            )
            continue
        verdicts = [
            (Repeats(each.repeats.get(name, Repeats.OPEN)), abs(each.at_target_s or 0.0)) for each in findings.priors
        ]
        proven = [seconds for verdict, seconds in verdicts if verdict.is_repeated]
        refuted = sum(verdict is Repeats.REFUTED for verdict, _ in verdicts)
        if not proven and not refuted:
            out.append(f"No counts show yet that work repeats with {name}: it is modelled like a size.")
            continue
        share = sum(proven) / (sum(seconds for _, seconds in verdicts) or 1.0)
        others = f"; those of {refuted} are not, less than a hundredth of the work" if refuted else ""
        out.append(
            f"{name} repeats work: the counts of {len(proven)} of {len(verdicts)} call paths, {100 * share:.3g} % of "
            f"the time at the target, are linear in it up to {name} = {campaign.steps[name]}{others}."
        )
    return out


# -- shared cores -------------------------------------------------------------------------------------


def crowded_points(history: History, runs: Iterable[FinishedRun]) -> list[Point]:
    """Return the points at which some runs had more ranks and threads than cores, as far as their records tell."""
    return list(dict.fromkeys(record.point for record in _timed_by_a_clock(history, runs) if _is_crowded(record)))


def points_without_cores(history: History, runs: Iterable[FinishedRun]) -> list[Point]:
    """Return the points whose wall-clock times contain waiting for cores: crowded, or next to other programs."""
    shares: dict[Point, list[float]] = {}
    for record in _timed_by_a_clock(history, runs):
        share = 0.0 if _is_crowded(record) else _share_of_core(record)
        if share is not None:
            shares.setdefault(record.point, []).append(share)
    return [point for point, some in shares.items() if median(some) < _COMPARABLE]


def sharing(history: History) -> list[str]:
    """Say in which runs cores were shared, and what that means for their times."""
    records, said = _timed_by_a_clock(history, history.runs), list[str]()
    if crowded := {record.point for record in records if _is_crowded(record)}:
        said.append(
            f"more ranks and threads than cores at {len(crowded)} of {len({record.point for record in records})} "
            "points, whose times of waiting enter no model (model.waiting)"
        )
    timed = [(record, share) for record in records if (share := _share_of_core(record)) is not None]
    if short := [share for _, share in timed if share < _LEAST_SHARE]:
        load = max((before["load"][0] for record, _ in timed if (before := record.before or {}).get("load")), default=0)
        switches = sum(record.involuntary_switches or 0 for record, _ in timed)
        said.append(
            f"computing, {len(short)} of {len(timed)} timed runs had a core for as little as {100 * min(short):.0f} % "
            f"of the time (load up to {load:.0f}, {switches} involuntary switches)"
        )
    stolen = max(map(_stolen, records), default=0.0)
    if stolen > _MOST_STOLEN:
        said.append(f"the host took {100 * stolen:.0f} % of the cores from a run")
    missing = next((record.cpu_clock_missing for record in records if record.cpu_clock_missing), None)
    if said and missing is None and timed:
        said.append("times of computation are CPU times, those of MPI are not")
    out = [f"Cores were shared: {'; '.join(said)}."] if said else []
    if missing is not None:
        out.append(f"Times of computation are wall-clock times, also while others had the core: {missing}.")
    return out


def _timed_by_a_clock(history: History, runs: Iterable[FinishedRun]) -> list[RunRecord]:
    """Return the records of the runs that are in the store and were not simulated."""
    records = (history.run_record(run.folder) for run in in_store(runs))
    return [record for record in records if record.clock == "real"]


def _is_crowded(record: RunRecord) -> bool:
    """Tell whether a run had more ranks and threads than cores."""
    cores = len((record.before or {}).get("cpu_mask") or ())
    nodes = int((record.configuration or {}).get("nodes") or 1)
    return 0 < cores * nodes < record.cores


def _share_of_core(record: RunRecord) -> float | None:
    """Return how much of the wall-clock time of computation was CPU time; None where that was not measured."""
    if record.mode is not Mode.TIME or not record.computation:
        return None
    seconds = record.computation
    return seconds["cpu_s"] / seconds["wall_s"] if seconds.get("wall_s") else 1.0


def _stolen(record: RunRecord) -> float:
    """Return the share of the machine's cores that its host gave to others while a run went on."""
    before, after = record.before or {}, record.after or {}
    if before.get("steal_s") is None or after.get("steal_s") is None or not record.wall_s:
        return 0.0
    return float(after["steal_s"] - before["steal_s"]) / (record.wall_s * len(before.get("cpu_mask") or (0,)))


def sharing_ahead(campaign: Campaign) -> list[str]:
    """Say what will share the cores of this machine, if the runs are made here and now; or which one is simulated."""
    if campaign.is_simulated:
        return simulated(campaign)
    own, said = usable_cores(), list[str]()
    points = [*campaign.points, *campaign.evaluation_points]
    local = [point for point in points if campaign.nodes(point) == 1 and campaign.partition(point) is None]
    if crowded := [point for point in local if campaign.cores(point) > own]:
        said.append(
            f"{len(crowded)} of {len(points)} points have more ranks and threads than the {own} cores here: they take "
            "turns; counts stay exact, their times of waiting in MPI enter no model (`model.waiting`)"
        )
    if local and (busy := [said for said in disturbances() if said.startswith("load")]):
        said.append(f"other programs use this machine now ({busy[0]})")
    return said
