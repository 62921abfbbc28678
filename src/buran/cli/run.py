"""``buran run``: start or resume a campaign."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from buran.cli.arguments import add_campaign_file, add_loudness, add_profile
from buran.cli.terminal import hushed, is_quiet, note, style
from buran.crash import needs_linux
from buran.errors import Exit, ToolError, UsageError
from buran.wording import counted

if TYPE_CHECKING:
    from buran.measurement.schedulers.base import Scheduler
    from buran.workflow.engine.controller import End, EngineProfile, Watchdog
    from buran.workflow.session import Session

_LONGEST = 16  # lines of a log
HELP = "start or resume a campaign; nothing is measured twice"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_campaign_file(parser)
    add_profile(parser)
    parser.add_argument("--dry-run", "-n", action="store_true", help="show what would be run")
    parser.add_argument("--retry-failed", action="store_true", help="retry failed builds and runs")
    parser.add_argument(
        "--cancel", action="store_true", help="cancel jobs in the queue when interrupted (default: they go on)"
    )
    parser.add_argument(
        "--remeasure",
        action="append",
        default=[],
        metavar="NAME=VALUE,...",
        help="measure a point again as a new generation, and keep the old one (repeatable)",
    )
    parser.add_argument(
        "--adopt", action="store_true", help="accept earlier runs although sources, flags or tools have changed"
    )
    parser.add_argument(
        "--mark-only", action="store_true", help="with --remeasure and --adopt: leave measuring to the next run"
    )
    add_loudness(parser)
    parser.epilog = "What follows -- is passed on to snakemake as it is."


def run(arguments: argparse.Namespace) -> int:
    """Drive the campaign; return the exit code."""
    from buran.measurement.backends.base import check_system
    from buran.workflow.session import open_session

    if sys.platform != "linux":
        raise needs_linux()
    if arguments.quiet and arguments.dry_run:
        raise UsageError("--quiet would leave nothing of --dry-run", hint="leave one of them out")
    session = open_session(arguments.file)
    with hushed():
        if arguments.adopt:
            _adopt(session)
        _open_generations(session, arguments.remeasure)
    if arguments.mark_only:
        if not arguments.adopt and not arguments.remeasure:
            raise UsageError("--mark-only marks nothing", hint="give --remeasure or --adopt with it")
        return Exit.DONE
    check_system(session.campaign)
    return drive(
        session,
        profile=arguments.profile,
        dry_run=arguments.dry_run,
        retry_failed=arguments.retry_failed,
        cancel=arguments.cancel,
        extra=arguments.passed_on,
    )


def _adopt(session: Session) -> None:
    """Take over the runs of the program that was measured last."""
    from buran.measurement.earlier_runs import measured_targets, take_over
    from buran.workflow.views.changes import differences

    target, layout = session.target, session.layout
    measured = measured_targets(layout)
    if not measured or any(name == target.id for name, _ in measured):
        why = "its finished runs are in use" if measured else "it has no finished runs"
        raise UsageError("there is nothing to take over", where=session.campaign.path, why=why)
    name, records = measured[0]
    changed = "; ".join(differences(records[0], target))
    take_over(target, layout, name, f"declared with buran run --adopt; changed: {changed}")
    print(f"from now on the runs of the earlier program count, although this has changed: {changed}")
    print(f"delete {layout.taken_over(target.made_from)} to take that back")


def _open_generations(session: Session, points: Sequence[str]) -> None:
    """Open a new generation of runs at each point, given as ``p=4,n=1000``."""
    from buran.cli.arguments import named_numbers
    from buran.workflow.measure import open_generation, point_of

    campaign = session.campaign
    known = {value for at in (*campaign.points, *campaign.evaluation_points) for value in at.values()}
    example = "p=4,n=1000"
    coordinates = [named_numbers(text, example, "--remeasure", positive=False, known=known) for text in points]
    for point in [point_of(session.campaign, values) for values in coordinates]:
        print(f"{point.key}: {open_generation(session, point)} configurations will be measured again")


def drive(
    session: Session,
    *,
    profile: str = "default",
    dry_run: bool = False,
    retry_failed: bool = False,
    cancel: bool = False,
    extra: list[str],
) -> int:
    """Run the workflow for a campaign, show progress, say how it ended."""
    from buran.cli.check import warn_of_redirection
    from buran.measurement.machine.process import Interrupted
    from buran.measurement.schedulers.base import NONE
    from buran.workflow.engine import controller
    from buran.workflow.history import History
    from buran.workflow.plan import first_plan
    from buran.workflow.views.changes import changes_in_words

    where = controller.find_profile(profile)
    try:
        session = _placed(session, where)
    except Interrupted:
        print("interrupted; nothing was submitted")
        return Exit.INTERRUPTED
    options = [*(["--dry-run"] if dry_run else []), *extra]
    command = controller.engine_command(session.campaign.path, session.layout, where, options)
    with hushed():
        session = session if dry_run else _with_todays_program(session)
        history = History.open(session)
        for text in (*session.target.notes, *changes_in_words(history)):
            note(text, sys.stdout)
    warn_of_redirection(session.campaign)
    if not history.plans:
        first_plan(session)  # mistakes show before anything runs
    layout, log = session.layout, session.layout.engine_log
    with hushed():
        print(f"{style('campaign', 'bold')} {session.campaign.name}: results in {_shown(layout.root)}")
        print(style(f"$ {shlex.join(command)}", "dim"), flush=True)
    if dry_run:
        import subprocess

        _preview(session, where)
        return subprocess.run(command, check=False).returncode
    with hushed(), controller.sole_controller(layout, _say):
        with tempfile.NamedTemporaryFile(dir=layout.root) as file:
            since = Path(file.name).stat().st_mtime  # by the clock of the file system, as what the scripts log
        drivers = _Drivers(session, command, log)
        followed = where.scheduler is not NONE
        end = drivers.in_jobs(where.scheduler, retry_failed, cancel) if followed else drivers.locally(retry_failed)
    if end.interrupted:
        print("interrupted; finished runs are kept, `buran run` resumes")
        return Exit.INTERRUPTED
    return _finish(session, end.code, log, since)


def _placed(session: Session, where: EngineProfile) -> Session:
    """Return the session with its runs spread over the nodes that are there."""
    from buran.measurement.machine.process import interruptible
    from buran.measurement.schedulers.base import NONE
    from buran.workflow.engine.partition import measured_in, measured_locally

    if where.scheduler is not NONE:
        where.scheduler.check_submission()
        with interruptible(), hushed():
            return measured_in(session, where.scheduler)
    with hushed():
        return measured_locally(session, _say) if where.executor == "local" else session


def _with_todays_program(session: Session) -> Session:
    """Look whether changed sources make the program that was measured; return the campaign with what is in use."""
    from buran.measurement.earlier_runs import same_program
    from buran.workflow.session import Session

    target = same_program(session.target, session.layout, _say)
    return session if target is session.target else Session(session.campaign)


def _preview(session: Session, where: EngineProfile) -> None:
    """Show the next plan, its cost and, where measurements are jobs of ours, the submission of the largest point's."""
    from buran.cli.plan import show_cost
    from buran.measurement.schedulers.jobs import Submission
    from buran.workflow.engine.jobs import jobs_of, launch_lines, together
    from buran.workflow.history import History
    from buran.workflow.measure import name_of
    from buran.workflow.views.ahead import Ahead
    from buran.workflow.views.summary import summarize

    history = History.open(session)
    ahead = Ahead.of(history)
    plan = ahead.next
    print(style(f"iteration {plan.iteration}: {plan.reason}", "bold"))
    show_cost(summarize(history, ahead))
    left = {bundle: job for jobs in jobs_of(session, plan) for job in jobs for bundle in job}
    bundles = {bundle.id: bundle for bundle in plan.bundles if bundle.id in left}
    if not bundles or where.executor != "buran":
        return
    name, bundle = bundles.popitem()
    job, layout = left[name], session.layout
    submission = Submission(name_of((job,)), (name_of((job,)),))
    request = together(session, [bundle, *(bundles[other] for other in job if other != name)])
    command = where.scheduler.submit_command(layout.root, request, submission, layout.job_script(submission.id))
    if command:
        print(f"the largest of its {counted(len(plan.bundles), 'point')}, {bundle.point.key}, is submitted by")
        print(f"  {shlex.join(command)}")
    print(f"a job for {bundle.point.key} starts, one after the other,")
    print("\n".join(f"  {line}" for line in launch_lines(session, bundle)), flush=True)


@dataclass(frozen=True)
class _Drivers:
    session: Session
    command: list[str]
    log: Path

    def locally(self, retry_failed: bool, dog: Watchdog | None = None) -> End:
        """Run the engine once; with a watchdog where its jobs run elsewhere."""
        from buran.cli.progress import Watcher
        from buran.measurement.store import ledger
        from buran.workflow.engine import controller

        layout = self.session.layout
        controller.forget_dead_engine(layout)
        controller.make_eligible(layout, self.session.id, retry_failed=retry_failed)
        watcher = Watcher(self.session)
        grace_s = controller.ENGINE_GRACE_S if dog is None else 0.0  # it would cancel the jobs, or wait for them

        def look() -> None:
            watcher.look()
            if dog is not None:
                dog.look()

        try:
            end = controller.run_engine(self.command, self.log, look, grace_s)
        finally:
            watcher.close()
        if end.code == 0:
            ledger.complete(layout.store)  # attempts that vanished had nobody to book them
            if "Nothing to be done" in self.log.read_text(errors="replace"):
                _say("nothing is left to do")
        return end

    def in_jobs(self, scheduler: Scheduler, retry_failed: bool, cancel: bool) -> End:
        """Run the engine until nothing is left that starting it again could mend."""
        from buran.measurement.machine.process import Interrupted, interruptible
        from buran.measurement.schedulers.jobs import JobEvents
        from buran.workflow.engine import controller

        restarts, events, folder = 0, JobEvents.of_engine(self.log), self.session.layout.root
        stuck = controller.StuckJobs(scheduler, _say)
        while True:
            try:
                with interruptible():
                    controller.wait_for_jobs(folder, stuck)
            except Interrupted:
                self._leave(scheduler, cancel)
                return controller.End(Exit.INTERRUPTED, interrupted=True)
            events.begin()
            end = self.locally(retry_failed and not restarts, controller.Watchdog(folder, stuck, events, _say))
            if end.interrupted:
                self._leave(scheduler, cancel)
                return end
            outcomes = events.outcomes()
            for line in outcomes.words:
                _say(line)
            if end.code == 0 or restarts == controller.MOST_RESTARTS or not outcomes.may_resume:
                return end
            restarts += 1
            _say("some jobs did not get to their end; going on with what is left")

    def _leave(self, scheduler: Scheduler, cancel: bool) -> None:
        from buran.workflow.engine.submitter import cancel_all

        if cancel:
            _say(f"{counted(cancel_all(scheduler, self.session.layout.root, _say), 'job')} cancelled")
            return
        jobs = scheduler.campaign_jobs(self.session.layout.root)
        if jobs is None:
            _say(f"{scheduler.title} does not answer; jobs in the queue go on")
        elif jobs:
            _say(f"{counted(len(jobs), 'job')} left in the queue; --cancel would have ended what is left")


def _finish(session: Session, code: int, log: Path, since: float) -> int:
    """Say how a campaign ended, and return the exit code; raise `ToolError` if it did not get to its end."""
    from buran.cli.status import print_failures
    from buran.workflow.history import History
    from buran.workflow.report import link_latest
    from buran.workflow.session import open_session
    from buran.workflow.views.summary import summarize

    state = summarize(History.open(session))
    if code == 0 and not state.done and open_session(session.campaign.path).id != session.id:
        raise ToolError(
            "the campaign is not what it was when it began",
            why="its file, its sources or a compiler changed while it ran",
            hint="let nothing write into the folder of program.source, not even the output of this command; then "
            "`buran run` again",
        )
    if code != 0 or not state.done:
        known = any(History.open(session).newest_findings)
        raise ToolError(
            "the workflow stopped before the campaign was done",
            where=_shown(log),
            why="\n".join(_errors_in(session.layout.root / "logs", log, since)),
            hint="correct it, then `buran run` again" + ("; `buran report` says what is known so far" if known else ""),
        )
    link_latest(session)
    print_failures(state)
    if not state.has_profiles and state.failures:
        common = state.causes[0]
        raise ToolError(
            "no instrumented run succeeded: nothing can be modelled",
            where=_shown(session.layout.root / common.log),
            why=f"{common.reason} ({common.count} of {state.failed} that failed)",
            hint="correct it, then `buran run --retry-failed`, or `buran run` after a change",
        )
    print(
        f"{style('done', 'green')}: {counted(state.measured, 'run')} measured, {state.failed} failed, "
        f"{state.spent_core_hours:.4g} core hours; {state.reason}"
    )
    if not is_quiet():
        report = _shown(session.layout.latest / "report.txt")
        print(f"report: {report}  (or: buran report {_shown(session.campaign.path)})")
    if state.failures:
        return Exit.SOME_RUNS_FAILED
    return Exit.BUDGET_REACHED if state.budget_reached else Exit.DONE


def _errors_in(logs: Path, log: Path, since: float) -> list[str]:
    """Return what the scripts of this run logged, else the end of the engine's own log.

    Of failed builds it is the first, as all mostly fail for the same reason.
    """
    errors = []
    paths = [path for path in sorted(logs.glob("*/*.log")) if path.stat().st_size and path.stat().st_mtime >= since]
    builds = [path for path in paths if path.parent.name == "build"]
    for path in paths:
        if path not in builds[1:]:
            errors += path.read_text(errors="replace", encoding="utf-8").splitlines()[-_LONGEST:]
    if builds[1:]:
        errors.append(f"{counted(len(builds) - 1, 'further build')} failed, see {_shown(logs / 'build')}")
    return errors or log.read_text(errors="replace", encoding="utf-8").splitlines()[-15:]


def _say(text: str) -> None:
    print(text, flush=True)


def _shown(path: Path) -> str:
    current = Path.cwd()
    return str(path.relative_to(current)) if path.is_relative_to(current) else str(path)
