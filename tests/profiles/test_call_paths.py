"""Call paths of profiles that a real Score-P wrote: arguments in the root's symbol, instances, clusters, parameters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from buran.errors import FormatError, UsageError
from buran.modeling.experiments import model_experiment
from buran.profiles.cubex_read import SKIPPED, as_call_paths, read_cubex, read_hosts, read_profile
from buran.profiles.cubex_write import write_cubex
from buran.profiles.experiment.build import experiment_from_profiles
from buran.profiles.experiment.extrap_tree import read_runs
from buran.profiles.metrics import METRICS
from buran.profiles.profile import CallTree, Location, Profile, Region

SCOREP = Path(__file__).parents[1] / "data" / "scorep"
KINDS = {"dynamic": 6, "clustered": 12, "rusage": 4, "tuple": 4}


@pytest.mark.parametrize(("kind", "instances"), KINDS.items())
def test_instances_and_clusters_are_one_call_path(kind: str, instances: int) -> None:
    stored = read_cubex(SCOREP / kind / "profile.cubex")
    profile = as_call_paths(stored)
    names = profile.tree.names
    assert not any("instance=" in name for name in names)
    assert len(names) == len(set(names)) == 11
    step = names.index("omp->main->iteration")
    assert profile.values["visits"][step].tolist() == [instances, 0, instances, 0]
    assert profile.tree.parent[names.index(f"{names[step]}->solve(int)")] == step
    for name, metric in profile.metrics.items():
        if metric.dtype in ("MINDOUBLE", "MAXDOUBLE"):
            continue
        np.testing.assert_allclose(profile.exclusive(name).sum(axis=0), stored.exclusive(name).sum(axis=0), rtol=1e-9)
    longest, shortest = profile.values["max_time"][step], profile.values["min_time"][step]
    below = [i for i, name in enumerate(stored.tree.names) if name.rpartition("->")[2].startswith("instance=")]
    assert longest[0] == stored.values["max_time"][below, 0].max()
    assert shortest[0] == stored.values["min_time"][below, 0].min()


def _with_parameter() -> Profile:
    regions = (
        Region("main", "main"),
        Region("level=1", "level=1", "", 0, "user", "unknown"),
        Region("level=2", "level=2", "", 0, "user", "unknown"),
        Region("solve", "solve"),
        Region("step", "step", "", 0, "user", "dynamic"),
        Region("instance=1", "instance=1", "", 0, "user", "unknown"),
    )
    tree = CallTree(regions, np.array([0, 1, 3, 2, 3, 4, 5]), np.array([-1, 0, 1, 0, 3, 0, 5]))
    visits = np.array([[0], [1], [3], [1], [4], [0], [1]], dtype=np.uint64)
    time = np.array([[9.0], [2.0], [1.0], [4.0], [3.0], [1.0], [1.0]])
    values = {"visits": visits, "time": time}
    return Profile(tree, (Location(0),), {name: METRICS[name] for name in values}, values, {})


def test_values_of_parameters_are_folded() -> None:
    profile = _with_parameter()
    folded = as_call_paths(profile)
    assert folded.tree.names == ("main", "main->solve", "main->step")
    assert folded.values["visits"].ravel().tolist() == [2, 7, 1]
    assert folded.values["time"].ravel().tolist() == [9.0, 4.0, 1.0]
    assert as_call_paths(folded) is folded


def test_runs_with_other_arguments_have_one_call_tree_and_exact_models() -> None:
    table = experiment_from_profiles(read_runs(SCOREP / "tree"))
    assert len(table.points) == 10
    assert len(table.tree) == len(read_cubex(SCOREP / "tree" / "names.p1n2000.r1" / "profile.cubex").tree)
    row = next(i for i, name in enumerate(table.tree.names) if "less_than" in name)
    visits = table.over_locations("visits")
    assert np.ptp(visits[row]) == 0
    assert visits[row, 0, 0] == 11729
    assert visits[:, 0, 0].sum() - visits[row, 0, 0] == len(table.tree) - 1
    models = model_experiment(table)["visits"]
    assert all(model is not None and model.quality.smape < 1e-9 for model in models.models)


def test_a_root_that_hides_its_arguments_in_its_name_is_refused_in_words(tmp_path: Path) -> None:
    """What comes of symbols that differ from run to run where nothing says that they are the program's."""
    runs = []
    for number, (point, repetition, profile) in enumerate(read_runs(SCOREP / "tree")):
        regions = tuple(
            Region(f"main_{number}", f"main_{number}") if region.mangled.endswith(str(int(point["n"]))) else region
            for region in profile.tree.regions
        )
        tree = CallTree(regions, profile.tree.region, profile.tree.parent)
        attributes = dict(profile.attributes)
        runs.append((point, repetition, Profile(tree, profile.locations, profile.metrics, profile.values, attributes)))
    with pytest.raises(UsageError, match="in common") as caught:
        experiment_from_profiles(runs)
    assert "other point" in str(caught.value.why)


def test_runs_of_two_programs_are_refused_in_words() -> None:
    runs = list(read_runs(SCOREP / "tree"))
    other = read_profile(SCOREP / "dynamic" / "profile.cubex")
    runs.append(({"p": 2.0, "n": 64000.0}, 1, other))
    with pytest.raises(UsageError, match="different programs") as caught:
        experiment_from_profiles(runs)
    assert "names and omp" in str(caught.value)


def test_derived_metrics_are_left_out_and_said(tmp_path: Path) -> None:
    import tarfile

    path = tmp_path / "plain.cubex"
    write_cubex(_with_parameter(), path)
    derived = (
        '<metric id="7" type="POSTDERIVED"><disp_name>Rate</disp_name><uniq_name>rate</uniq_name>'
        "<dtype>DOUBLE</dtype><uom></uom><url></url><descr></descr>"
        "<cubepl>metric::time()/metric::visits()</cubepl></metric></metrics>"
    )
    changed = tmp_path / "derived.cubex"
    with tarfile.open(path) as old, tarfile.open(changed, "w") as new:
        for member in old.getmembers():
            stream = old.extractfile(member)
            assert stream is not None
            content = stream.read()
            if member.name == "anchor.xml":
                content = content.replace(b"</metrics>", derived.encode())
                member.size = len(content)
            import io

            new.addfile(member, io.BytesIO(content))
    profile = read_cubex(changed)
    assert "rate" not in profile.values
    assert "rate (POSTDERIVED)" in profile.attributes[SKIPPED]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("traces.otf2", "OTF2 whatever", "OTF2 trace"),
    ],
)
def test_other_formats_are_named(tmp_path: Path, name: str, content: str, said: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(FormatError) as caught:
        read_cubex(path)
    assert said in str(caught.value.why)
    assert caught.value.hint


def test_a_profile_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    whole = (SCOREP / "dynamic" / "profile.cubex").read_bytes()
    for size in (0, 100, len(whole) // 2, len(whole) - 2000):
        path = tmp_path / f"{size}.cubex"
        path.write_bytes(whole[:size])
        with pytest.raises(FormatError):
            read_profile(path)


def test_the_system_tree_names_the_host_of_each_rank() -> None:
    assert read_hosts(SCOREP / "dynamic" / "profile.cubex") == {0: "node1", 1: "node1"}
