"""Where everything of a campaign lies, all paths in one place, and how results are found by file or folder.

The store and the decisions belong to this package and are written once. Everything else is a pointer or
a derived result that the workflow may delete and make again at any time.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from buran.campaign.document import YamlDocument, below, read_campaign_file
from buran.errors import UsageError
from buran.profiles.experiment import TABLE


@dataclass(frozen=True)
class Layout:
    """Paths below a campaign's results folder.

    Attributes
    ----------
    root
        ``<results>/<campaign name>``, absolute; also the workflow's working directory.
    """

    root: Path

    def _path(self, folder: str, name: str, ending: str) -> Path:
        """Return the place of one of very many files: divided by the beginning of its name.

        Earlier versions did not divide them: what lies there counts. A name can be a wildcard of the workflow engine.
        """
        flat, shard = f"{self.root}/{folder}/{name}{ending}", "{shard}" if name.startswith("{") else name[:2]
        return Path(flat if os.path.lexists(flat) else f"{self.root}/{folder}/{shard}/{name}{ending}")

    # -- written once, never by the workflow engine -------------------------------------------------

    @property
    def store(self) -> Path:
        """All builds and runs."""
        return self.root / "store"

    def build(self, build: str) -> Path:
        """Folder of a finished build."""
        return self.store / build / "build"

    def decided_filter(self, target: str, refinement: str, iteration: int) -> Path:
        """Filter that was decided for an iteration; kept, so that measurements under it stay of use."""
        return self.root / "decisions" / f"{target}-{refinement}" / f"filter-{iteration}.filter"

    def verdicts(self, target: str, refinement: str, iteration: int) -> Path:
        """Path of what was known of each function when the filter of an iteration was decided."""
        return self.decided_filter(target, refinement, iteration).with_name(f"verdicts-{iteration}.json")

    def partition(self, name: str | None) -> Path:
        """Path of what a partition's nodes are like, by which runs are spread; without a name the scheduler's own."""
        return self.root / "decisions" / "partitions" / f"{name or 'default'}.json"

    def taken_over(self, target: str) -> Path:
        """Which measured target a target stands for, because it was found or declared to be the same program."""
        return self.root / "decisions" / "targets" / f"{target}.json"

    def bundle_claim(self, bundle: str) -> Path:
        """Claim of whoever measures a bundle now."""
        return self._path("claims", bundle, ".claim")

    def time_outs(self, bundle: str) -> Path:
        """Jobs of a bundle that ran out of time, one a line: the next one asks for more."""
        return self._path("claims", bundle, ".timeouts")

    @property
    def waits(self) -> Path:
        """How long each job waited in the queue: job and seconds, one a line."""
        return self.root / "claims" / "waits"

    @property
    def job_scripts(self) -> Path:
        """Folder of what was submitted to a scheduler."""
        return self.root / "jobs"

    def submission(self, identity: str) -> Path:
        """Path of what the tasks of an array of jobs are for."""
        return self.job_scripts / f"{identity}.json"

    def job_script(self, identity: str) -> Path:
        """Script of a job, as it was submitted."""
        return self.job_scripts / f"{identity}.sh"

    def log(self, rule: Literal["measure", "measure_together"], name: str) -> Path:
        """Log of a job that measures a bundle or a batch."""
        return self._path(f"logs/{rule}", name, ".log")

    @property
    def engine_log(self) -> Path:
        """What the workflow engine said the last time."""
        return self.root / "logs" / "snakemake.log"

    @property
    def controller_claim(self) -> Path:
        """Claim of the one process that drives the campaign."""
        return self.root / "claims" / "controller.claim"

    # -- pointers and derived results, owned by the workflow ----------------------------------------

    def build_spec(self, build: str) -> Path:
        """How to make a build."""
        return self.root / "pointers" / "builds" / f"{build}.spec.json"

    def build_pointer(self, build: str) -> Path:
        """Path of what became of a build."""
        return self.root / "pointers" / "builds" / f"{build}.json"

    def bundle_spec(self, bundle: str) -> Path:
        """Path of what a bundle consists of."""
        return self._path("pointers/bundles", bundle, ".spec.json")

    def bundle_pointer(self, bundle: str) -> Path:
        """Path of what became of a bundle's runs."""
        return self._path("pointers/bundles", bundle, ".json")

    def batch_spec(self, batch: str) -> Path:
        """Path of which jobs, of some bundles each, the workflow engine takes for one."""
        return self._path("pointers/jobs", batch, ".spec.json")

    def batch_pointer(self, batch: str) -> Path:
        """Made when all bundles of a batch have their pointers."""
        return self._path("pointers/jobs", batch, ".json")

    def job_pointer(self, name: str) -> Path:
        """Return the pointer that a job for a bundle or a batch makes."""
        return self.batch_pointer(name) if self.batch_spec(name).is_file() else self.bundle_pointer(name)

    def made(self, kind: Literal["builds", "bundles", "jobs"]) -> list[str]:
        """Return what has a pointer, sorted."""
        folders, names = [str(self.root / "pointers" / kind)], set[str]()
        for folder in folders:
            with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
                for entry in entries:
                    name, dot, ending = entry.name.partition(".")
                    if not dot:
                        folders.append(entry.path)
                    elif ending == "json":
                        names.add(name)
        return sorted(names)

    def made_pointers(self, kind: Literal["builds", "bundles", "jobs"]) -> list[Path]:
        """Return the pointers that exist, without the specifications next to them, sorted."""
        if kind == "builds":
            return [self.build_pointer(build) for build in self.made(kind)]
        return [self._path(f"pointers/{kind}", name, ".json") for name in self.made(kind)]

    def iteration(self, campaign: str, iteration: int | str) -> Path:
        """Folder of an iteration's plan, models and filter."""
        return self.root / "iterations" / campaign / str(iteration)

    def plan(self, campaign: str, iteration: int | str) -> Path:
        """Plan of an iteration."""
        return self.iteration(campaign, iteration) / "plan.json"

    def division(self, campaign: str, iteration: int | str) -> Path:
        """Which bundles of an iteration share jobs."""
        return self.iteration(campaign, iteration) / "jobs.json"

    def budget(self, campaign: str, iteration: int | str) -> Path:
        """Core hours that may be spent until the end of an iteration: the plan says so too, but is long."""
        return self.iteration(campaign, iteration) / "budget.json"

    def models(self, campaign: str, iteration: int | str) -> Path:
        """Models after an iteration."""
        return self.iteration(campaign, iteration) / "models.json"

    def findings(self, campaign: str, iteration: int | str) -> Path:
        """Facts that an iteration found out in addition to its models."""
        return self.iteration(campaign, iteration) / "findings.json"

    def table(self, campaign: str, iteration: int | str) -> Path:
        """Everything measured up to an iteration, as JSON Lines; compressed, as names of call paths repeat."""
        return self.iteration(campaign, iteration) / "experiment.jsonl.gz"

    def filter(self, campaign: str, iteration: int | str) -> Path:
        """Filter that an iteration is built with."""
        return self.iteration(campaign, iteration) / "scorep.filter"

    def results(self, campaign: str) -> Path:
        """Folder of what the user takes home."""
        return self.root / "reports" / campaign

    def folders_of_small_files(self) -> list[Path]:
        """Return where this package writes files outside of builds and runs, whose folders have files of programs."""
        names = ("decisions", "claims", "jobs", "pointers", "iterations", "reports", "store/nodes")
        return [self.root / name for name in names]

    @property
    def latest(self) -> Path:
        """Link to the results of the last finished campaign run."""
        return self.root / "latest"


REPORT, FINDINGS, MODELS = "report.json", "findings.json", "models.json"
_DEEPEST = 6  # folders from a report up to the campaign file, as in a/b/NAME/reports/ID


def campaign_file(path: Path) -> Path:
    """Return a campaign file: itself, or that whose results a folder holds.

    Raises
    ------
    UsageError
        No campaign file beside the folder has its results there.
    """
    if not path.is_dir():
        if path.name.startswith("report.") and (path.parent / REPORT).is_file():
            hint = f"name the campaign file, or this folder: {path.parent}"
            raise UsageError("this file belongs to a report", where=path, why="it is no campaign file", hint=hint)
        return path
    folder = path.resolve()
    folders = (folder, *folder.parents)[:_DEEPEST]
    for other in folders[1:]:
        for file in sorted((*other.glob("*.yaml"), *other.glob("*.yml"))):
            with contextlib.suppress(UsageError, AttributeError):  # other files may lie there
                if root_of(read_campaign_file(file)).resolve() in folders:
                    return file
    own = path / "campaign.yaml"
    if own.is_file() and not (path / REPORT).is_file():
        raise UsageError("this is no folder of results", where=path, hint=f"name the campaign file: {own}")
    kept = next((each for each in (folder / "latest", folder) if (each / REPORT).is_file()), None)
    raise UsageError(
        "no campaign is known by this folder",
        where=path,
        why="no campaign file in the folders above has its results there",
        hint="name the campaign file"
        if kept is None
        else f"name the campaign file; or read what was kept: buran report {kept}, buran filter --from {kept / TABLE}",
    )


def root_of(file: YamlDocument) -> Path:
    """Return the folder of all results of a campaign file, which need not be right otherwise."""
    folder = below(file.path.absolute().parent, str(file.data.get("results", "results")))
    return folder / str(file.data.get("name", "NAME"))


def results_folder(path: Path) -> Path:
    """Return a folder of results: itself, or that of the last finished run of a campaign file.

    Of the file only the name and the place of results count: the sources that it names may be gone.

    Raises
    ------
    UsageError
        There are no results.
    CampaignError
        The file is no YAML.
    """
    if not path.exists():
        hint = "name a campaign file, or a folder of results such as results/NAME/latest"
        raise UsageError("there is no campaign and no results", where=path, why="no such file or folder", hint=hint)
    if path.is_dir():
        folder, hint = path.resolve(), "name a folder such as results/NAME/latest, or a campaign file"
    else:
        folder, hint = Layout(root_of(read_campaign_file(path))).latest.resolve(), f"buran run {path}"
    if not (folder / REPORT).is_file():
        raise UsageError("the campaign has no results yet", where=path, why=f"there is no {folder / REPORT}", hint=hint)
    return folder
