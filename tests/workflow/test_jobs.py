"""What bundles ask schedulers for; schedulers other than Slurm are played by scripts."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from buran.campaign.plan import Bundle
from buran.workflow.engine.jobs import STARTUP_S, engine_resources, job_limit_s, job_request, resource_names
from buran.workflow.plan import first_plan
from buran.workflow.session import Session, open_session
from workbench import Workbench

pytestmark = [pytest.mark.mpi]
ROOT = Path(__file__).parents[2]


def opened(workbench: Workbench, **resources: object) -> tuple[Session, Bundle]:
    workbench.write(resources={"time_limit": 60, **resources})
    session = open_session(workbench.file)
    return session, first_plan(session).bundles[-1]


def test_resources_follow_the_point(workbench: Workbench) -> None:
    session, bundle = opened(
        workbench,
        nodes="p",
        tasks_per_node=1,
        memory_mb="100 * p",
        partition="fast",
        reservation="mine",
        extra="--switches=1",
    )
    request = job_request(session, bundle)
    assert (request.nodes, request.tasks, request.cpus_per_task, request.memory_mb) == (2, 2, 1, 200)
    resources = engine_resources(request)
    assert (resources["nodes"], resources["tasks"], resources["cpus_per_task"], resources["mem_mb"]) == (2, 2, 1, 200)
    assert (resources["ranks_per_node"], resources["cores_per_node"]) == (1, 1)
    assert resources["walltime_s"] == 60 * resources["walltime_min"] == 60 * resources["runtime"]
    assert set(resources) == set(resource_names(session))
    assert (resources["exclusive"], resources["tasks_per_node"], resources["reservation"]) == (1, 1, "mine")
    assert resources["submit_options"] == "--switches=1"
    assert {"mem_mb", "partition"} <= set(resource_names(session))
    assert "qos" not in resource_names(session), "what the file leaves open, the profile may say"


def test_partitions_are_kept_apart_and_accounts_are_not(workbench: Workbench) -> None:
    plain, _ = opened(workbench)
    elsewhere, _ = opened(workbench, partition="fast")
    charged, _ = opened(workbench, account="project", time_margin=5.0, memory_mb=10)
    assert plain.campaign.digest() == charged.campaign.digest() != elsewhere.campaign.digest()


def test_time_limits_are_predicted_grow_and_end_at_what_the_runs_may_take(workbench: Workbench) -> None:
    session, bundle = opened(workbench, expected_time=2, time_margin=3)
    assert len(bundle.runs) == 3 and bundle.predicted_s == 2
    overhead = STARTUP_S + 15.0
    assert job_limit_s(session, bundle) == 3 * 2 * 3 + overhead
    path = session.layout.time_outs(bundle.id)
    path.parent.mkdir(parents=True)
    path.write_text("1 60.0\n")
    assert job_limit_s(session, bundle) == 2 * (18 + overhead)
    path.write_text("1 60.0\n" * 9)
    assert job_limit_s(session, bundle) == 3 * 60 + overhead
    assert job_limit_s(session, replace(bundle, predicted_s=None)) == 3 * 60 + overhead


def test_an_estimate_compares_the_next_plan_with_the_full_matrix(workbench: Workbench) -> None:
    opened(workbench, expected_time=36)
    found = json.loads(workbench.buran("plan", "campaign.yaml", "--json"))["next"]
    assert found["runs"] == 12 and found["points"] == 4
    assert found["next_core_hours"] == found["full_matrix_core_hours"] == pytest.approx(36 * (1 + 2) * 2 * 3 / 3600)
    assert "resources.expected_time" in workbench.buran("plan", "campaign.yaml")


@pytest.mark.parametrize(
    ("key", "value"),
    [("tasks_per_node", "p - 1"), ("memory_mb", 0), ("partition", "a b"), ("account", "-x"), ("time_margin", 0.5)],
)
def test_mistakes_in_resources_are_found_in_the_file(workbench: Workbench, key: str, value: object) -> None:
    workbench.write(resources={key: value})
    assert f"key resources.{key}" in workbench.buran("check", "campaign.yaml", expect=2)


QSUB = """#!/bin/sh
echo "$@" >> {folder}/submitted
for script; do :; done
setsid sh "$script" > /dev/null 2>&1 < /dev/null &
echo 1.server
"""


GENERIC = """qsub -N buran -l walltime={resources.walltime_s}
-l select={resources.nodes}:ncpus={resources.cores_per_node}:mpiprocs={resources.ranks_per_node}"""


@pytest.mark.thorough
@pytest.mark.parametrize("cheap_rules", ["here", "jobs"])
def test_a_campaign_through_a_scheduler_that_is_not_slurm(
    workbench: Workbench, tmp_path: Path, cheap_rules: str
) -> None:
    """One that Buran does not follow, by Snakemake's executor for any; a script starts jobs at once."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "qsub").write_text(QSUB.format(folder=tmp_path))
    (tools / "qsub").chmod(0o755)
    text = (ROOT / "profiles" / "pbs" / "config.yaml").read_text()
    if cheap_rules == "jobs":
        text = text.replace("# config:", "config:")
    settings = yaml.safe_load(text)
    del settings["buran-scheduler"]
    settings |= {"executor": "cluster-generic", "cluster-generic-submit-cmd": " ".join(GENERIC.split())}
    settings |= {"default-resources": ["nodes=1", "cores_per_node=1", "ranks_per_node=1", "walltime_s=3600"]}
    settings |= {"jobs": 2, "latency-wait": 20}
    (tmp_path / "profile").mkdir()
    (tmp_path / "profile" / "config.yaml").write_text(yaml.safe_dump(settings))
    os.environ["PATH"] = f"{tools}{os.pathsep}{os.environ['PATH']}"
    try:
        workbench.buran("run", "campaign.yaml", "--profile", str(tmp_path / "profile"))
        before = workbench.started()
        workbench.buran("run", "campaign.yaml", "--profile", str(tmp_path / "profile"))
    finally:
        os.environ["PATH"] = os.environ["PATH"].removeprefix(f"{tools}{os.pathsep}")
    assert len(before) == 12 and workbench.started() == before
    submitted = (tmp_path / "submitted").read_text().splitlines()
    others = 3 + 2 + 1 + 1 + 1  # builds, plans, a filter, models, the report
    assert len(submitted) == 4 + (others if cheap_rules == "jobs" else 0)
    assert sum("mpiprocs=2" in line for line in submitted) == 2
