# Buran: from a campaign file to models, filter lists and a report.
#
#   snakemake --configfile campaign.yaml
#
# `buran run campaign.yaml` starts the same workflow, shows progress and gives an exit code that says
# what became of the campaign. Everything below works in the campaign's own results folder.

import signal
from functools import cache
from pathlib import Path
from threading import Thread

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

from buran.cli.status import print_failures
from buran.workflow.engine.jobs import (
    batch_request,
    division_of,
    engine_resources,
    resource_names,
)
from buran.workflow.history import History
from buran.workflow.measure import plan_in_force
from buran.workflow.session import open_session
from buran.workflow.steps import Course, Step
from buran.workflow.views.summary import summarize

min_version("9.20")

if not workflow.configfiles and "campaign_file" not in config:

    FOLDER = workflow.current_basedir.get_path_or_uri(secret_free=True)

    configfile: Path(FOLDER, "config", "campaign.yaml")


# As a module of another workflow, it is told the file: `config: {"campaign_file": "campaign.yaml"}`.
if "campaign_file" not in config and not workflow.configfiles:
    raise WorkflowError(
        'the campaign file is not known: write config: {"campaign_file": "campaign.yaml"} in the module'
    )
GIVEN = set(workflow.config_settings.config) - {"campaign_file", "cheap_rules"}
if GIVEN and workflow.modifier.is_main_snakefile():
    raise WorkflowError(
        f"--config cannot change a campaign: {', '.join(sorted(GIVEN))}. Edit the campaign file, or name another one "
        "with --configfile"
    )
SESSION = open_session(Path(config.get("campaign_file") or workflow.configfiles[0]))
PATHS = SESSION.relative_paths
config["campaign_file"] = str(SESSION.campaign.path)
config["campaign_id"] = SESSION.id


workdir: SESSION.layout.root


wildcard_constraints:
    campaign="[0-9a-f]{12}",
    iteration="[0-9]+",
    build="[0-9a-f]{16}",
    shard="[0-9a-f]{2}",
    bundle="[0-9a-f]{16}",
    batch="[0-9a-f]{16}",


# What is not measured runs where the engine runs, unless the profile says `config: [cheap_rules=jobs]`. Each rule says so
# itself: a list of names would not follow them into a workflow that renames them.
CHEAP_RULES = config.get("cheap_rules", "here")
if CHEAP_RULES not in ("here", "jobs"):
    raise WorkflowError(
        f"key config of the profile: cheap_rules is 'here' or 'jobs', not {CHEAP_RULES!r}"
    )
HERE = CHEAP_RULES == "here"


include: "rules/common.smk"
include: "rules/build.smk"
include: "rules/measure.smk"
include: "rules/plan.smk"
include: "rules/model.smk"
include: "rules/refine.smk"
include: "rules/report.smk"


report: "workflow/report/campaign.rst"


onstart:
    # Snakemake's handler waits for a lock that the thread it interrupts may hold: in a thread of its own it gets it.
    stop = signal.getsignal(signal.SIGTERM)
    signal.signal(
        signal.SIGTERM, lambda *given: Thread(target=stop, args=given).start()
    )


onsuccess:
    print_failures(summarize(History.open(SESSION)))


rule all:
    default_target: True
    input:
        Step("report").makes(PATHS, SESSION.id),
    localrule: True
