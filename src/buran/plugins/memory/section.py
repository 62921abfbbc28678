"""What a campaign's runs that sample accesses add to its models and to its report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from buran.campaign.config import Campaign
from buran.campaign.plan import Mode
from buran.features import ReportSection
from buran.modeling.priors.prior import Account
from buran.plugins.memory.caches import CacheTable, cache_page, cache_plot, cache_table, cache_text
from buran.plugins.memory.costs import memory_account, page_account, sharing
from buran.plugins.memory.keys import caches_kib, machine_of
from buran.plugins.memory.metrics import FIRST_TOUCHES, MISSES, OPERATIONS
from buran.plugins.memory.roofline import Roofline, roofline_of, roofline_page, roofline_plot, roofline_text
from buran.plugins.memory.sampling import cache_sizes, misses_of_runs, sample_notes
from buran.profiles.experiment.build import experiment_from_profiles
from buran.profiles.experiment.table import Experiment
from buran.profiles.metrics import sampled
from buran.reporting.content import Report
from buran.workflow.collect import only, profiles_of
from buran.workflow.history import FinishedRun, History
from buran.workflow.notes import not_measured
from buran.workflow.page import nodes_of
from buran.workflow.report import counting_runs, export, newest, newest_runs


def misses_table(history: History, runs: Sequence[FinishedRun]) -> Experiment | None:
    """Return the misses that a campaign asks for; None where no run sampled accesses."""
    campaign = history.session.campaign
    memory = [run for run in runs if run.mode is Mode.MEMORY]
    requested = sampled(campaign.config.metrics)
    if not memory or not requested:
        return None
    return only(experiment_from_profiles(misses_of_runs(memory, campaign.parameters, caches_kib(campaign))), requested)


def accounts(
    campaign: Campaign, runs: Sequence[FinishedRun], timed: Experiment, counted: Experiment | None
) -> Iterator[Account]:
    """Yield what misses and page faults cost the call paths of the times, as far as the machine is known."""
    machine = machine_of(campaign)
    if machine is None:
        return
    memory = list(profiles_of((run for run in runs if run.mode is Mode.MEMORY), campaign.parameters))
    misses = memory_account(campaign, machine, memory, timed.tree)
    yield from () if misses is None else (misses,)
    faults = page_account(campaign, machine, counted, timed.tree)
    yield from () if faults is None else (faults,)


def caches_of_campaign(history: History, report: Report) -> CacheTable | None:
    """Return what call paths ask of caches at the target."""
    campaign, runs = history.session.campaign, newest_runs(history, Mode.MEMORY)
    sizes = cache_sizes((profile for *_, profile in runs), caches_kib(campaign))
    return cache_table(runs, sizes, campaign, report.models, sharing(campaign, machine_of(campaign), sizes))


def roofline_of_campaign(history: History, report: Report) -> Roofline | None:
    """Return what bounds call paths."""
    campaign, last = history.session.campaign, history.plans[-1].iteration - 1
    machine = machine_of(campaign)
    if machine is None:
        return None
    return roofline_of(
        newest_runs(history, Mode.MEMORY),
        counting_runs(history),
        history.findings(last).tree,
        history.models(last).get("time"),
        report.priors,
        campaign,
        machine,
    )


def write_misses(history: History, folder: Path) -> None:
    """Write profiles with misses as a tree that Extra-P opens."""
    campaign = history.session.campaign
    runs = misses_of_runs(newest(history, Mode.MEMORY), campaign.parameters, caches_kib(campaign))
    export(campaign, list(runs), folder / "extrap" / Mode.MEMORY)


def notes(history: History) -> Iterator[str]:
    """Say what is missing, which samples are thin, and whether the machine file is of another processor."""
    if missing := not_measured(history, (FIRST_TOUCHES.name, *MISSES)):
        yield (
            f"No run has {', '.join(missing)} (key metrics): the machine has fewer levels of caches, or no run that "
            "samples accesses to memory succeeded. Sizes of further caches can be named: memory.caches_kib."
        )
    if missing := not_measured(history, OPERATIONS):
        yield (
            f"No run has {', '.join(missing)} (key metrics): blocks were counted by an earlier version of Buran or "
            "without its compiler plugins. Runs in another results folder, with clang or gcc and its headers, would "
            "have them."
        )
    yield from sample_notes(history)
    machine, cpus = machine_of(history.session.campaign), sorted({str(node["cpu"]) for node in nodes_of(history)})
    if machine is not None and cpus and cpus != [machine.cpu]:
        yield (
            f"The machine file (memory.machine) is of another processor than the runs: {machine.cpu}, not "
            f"{', '.join(cpus)}. What bounds call paths is said for the former."
        )


CACHES = ReportSection(
    "caches",
    "Caches",
    lambda history, report, folder: None if folder is None else caches_of_campaign(history, report),
    lambda table, report: cache_text(table, report.target),
    lambda table, report: cache_page(table, report.target),
    plot=cache_plot,
    script=Path(__file__).with_name("caches.js"),
)
ROOFLINE = ReportSection(
    "roofline",
    "What bounds it",
    lambda history, report, folder: None if folder is None else roofline_of_campaign(history, report),
    lambda roofline, _: roofline_text(roofline),
    lambda roofline, report: roofline_page(roofline, report.target),
    plot=roofline_plot,
    script=Path(__file__).with_name("roofline.js"),
    knows_costs=True,
)
