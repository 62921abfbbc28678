"""Snakemake's executor for Buran's jobs: a job of the cluster is one process that measures, without an engine inside.

Measurements are submitted as ``buran-job``; rules that only a cluster may run, as Snakemake would. All that is known
of jobs and schedulers stands in `buran.workflow.engine.submitter` and `buran.measurement.schedulers`.
"""

import asyncio
import shlex
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

if TYPE_CHECKING:
    from buran.workflow.engine.submitter import Result, Submitter, Task

_MEASUREMENTS = ("measure", "measure_together")
"""Rules that measure; the second stands for many jobs."""
_SOON_S, _LATER_S = 1.0, 10.0  # between two looks at the scheduler, while jobs begin or end and while nothing changes


@dataclass
class ExecutorSettings(ExecutorSettingsBase):  # type: ignore[misc]
    """What profiles say."""

    scheduler: str = field(default="slurm", metadata={"help": "The scheduler that jobs are submitted to"})


common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    init_seconds_before_status_checks=0,
)


class Executor(RemoteExecutor):  # type: ignore[misc]
    """Hands jobs to a `Submitter` and tells the engine how they ended."""

    _pause_s = _SOON_S  # the thread that looks at jobs begins before anything else is made

    def __post_init__(self) -> None:
        self._results: dict[int, Result] = {}

    @cached_property
    def _submitter(self) -> "Submitter":
        from buran.measurement.schedulers.base import SCHEDULERS
        from buran.measurement.schedulers.jobs import JobEvents
        from buran.workflow.engine.submitter import Submitter

        config = self.workflow.globals["config"]
        words = [sys.executable, "-m", "buran.workflow.measure", config["campaign_file"], config["campaign_id"]]
        folder = Path.cwd()
        events = JobEvents.of_engine(folder / "logs" / "snakemake.log")
        name = self.workflow.executor_settings.scheduler
        if name not in SCHEDULERS.names:
            known = ", ".join(sorted(set(SCHEDULERS.names) - {"none"}))
            raise WorkflowError(f"key buran-scheduler of the profile: {name!r} is none of {known}")
        most = self.workflow.resource_settings.nodes or sys.maxsize
        return Submitter(
            SCHEDULERS.load(name), folder, lambda identity: shlex.join([*words, identity]), events, most=most
        )

    def run_job(self, job: Any) -> None:
        """Take a job of the engine; what it stands for is submitted by the thread that looks at jobs."""
        tasks = self._tasks(job)
        for task in tasks:
            self._submitter.add(task)
        self.report_job_submission(SubmittedJobInfo(job, aux={"tasks": tasks}))
        self._pause_s = _SOON_S

    def _tasks(self, job: Any) -> "list[Task]":
        from buran.workflow.engine.jobs import request_from
        from buran.workflow.engine.submitter import Task, tasks_of

        request = request_from(dict(job.resources.items()))
        if not job.is_group() and job.rule.name in _MEASUREMENTS:
            return tasks_of(Path.cwd(), str(job.wildcards[-1]), request)
        makes = tuple(Path(str(path)).absolute() for path in job.output)
        return [Task(f"{job.name}-{job.jobid}", request, f"exec {self.format_job_exec(job)}", makes)]

    async def check_active_jobs(self, active_jobs: list[Any]) -> AsyncGenerator[Any, None]:
        """Submit and look at everything at once; yield the jobs that have not ended."""
        if not active_jobs:
            return
        results = await asyncio.to_thread(self._submitter.step)
        # A job that was taken since these were listed may have ended already: it is told the next time.
        self._results |= {id(result.task): result for result in results}
        self._pause_s = _SOON_S if results else min(self._pause_s * 1.5, _LATER_S)
        for info in active_jobs:
            tasks = info.aux["tasks"]
            if any(id(task) not in self._results for task in tasks):
                yield info
                continue
            outcomes = [self._results.pop(id(task)) for task in tasks]
            failed = next((end for end in outcomes if not end.succeeded), None)
            if failed is not None:
                self.report_job_error(info, msg=f"{failed.words}. ")
                continue
            if not info.job.is_group() and info.job.rule.name == _MEASUREMENTS[1]:
                self._finish_batch(info.job)
            self.report_job_success(info)

    def _finish_batch(self, job: Any) -> None:
        from buran.files import write_json

        write_json(Path(str(job.output[0])), str(job.wildcards[-1]))

    async def sleep(self) -> None:
        """Wait until the next look; the end of the engine is not kept waiting."""
        waited_s = 0.0
        while self.wait and waited_s < self._pause_s:
            await asyncio.sleep(0.1)
            waited_s += 0.1

    def cancel_jobs(self, active_jobs: list[Any]) -> None:
        """Cancel every job, also those that are being looked at."""
        self._submitter.cancel()
