"""A plug-in that was there when a campaign began, and is not where it goes on: it is named, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import simulated_campaigns
from buran import extensions
from buran.cli import main
from buran.errors import Exit, FormatError
from buran.extensions import PLUGINS
from buran.files import file_sha256
from buran.modeling.functions.terms import Factor, ModelFunction, Term
from buran.workflow.session import logged, open_session
from buran.workflow.steps import Course, Step
from buran_studies.simulate.in_process import carry_out

Remove = Callable[[str], None]


@pytest.fixture
def remove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Remove]:
    """Take the folder of a plug-in away, as far as Buran sees it."""

    def take_away(name: str) -> None:
        folder = tmp_path / "plugins"
        folder.mkdir()
        for plugin in PLUGINS.iterdir():
            if plugin.name != name:
                (folder / plugin.name).symlink_to(plugin)
        monkeypatch.setattr(extensions, "PLUGINS", folder)
        extensions._is_missing.cache_clear()

    yield take_away
    extensions._is_missing.cache_clear()


def files_of(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): file_sha256(path) for path in folder.rglob("*") if path.is_file()}


def test_a_node_without_the_plugin_of_a_campaign_measures_nothing(tmp_path: Path, remove: Remove) -> None:
    pytest.importorskip("buran.plugins.efficiency")
    session = simulated_campaigns.opened(tmp_path / "campaign", scaling="strong")
    for step in Course.of(session).until(Step("plan", "0")):
        step.carry_out(session)
    before = files_of(session.layout.root)
    remove("efficiency")
    log = tmp_path / "node.log"
    with pytest.raises(SystemExit) as ended, logged(log, session.campaign.path, session.id):
        pytest.fail("the step went on")
    assert ended.value.code == Exit.USAGE
    said = " ".join(log.read_text().split())
    assert "scaling" in said and "'efficiency'" in said and "Traceback" not in said
    assert files_of(session.layout.root) == before


def test_a_store_outlives_the_plugin_that_its_campaign_had(
    tmp_path: Path, remove: Remove, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("buran.plugins.efficiency")
    session = simulated_campaigns.opened(tmp_path / "campaign", scaling="strong")
    plan = carry_out(session)
    assert plan.done
    before = files_of(session.layout.store)
    remove("efficiency")
    for verb in ("status", "report", "plan"):
        assert main([verb, str(session.campaign.path)]) == Exit.USAGE
        said = " ".join(capsys.readouterr().err.split())
        assert "scaling" in said and "'efficiency'" in said
    assert files_of(session.layout.store) == before
    without = open_session(simulated_campaigns.written(tmp_path / "campaign"))
    assert carry_out(without).done
    assert files_of(session.layout.store) == before, "the same runs answer the same question without the key"


def test_models_with_terms_of_a_plugin_that_is_gone_name_it(remove: Remove) -> None:
    outgrown = pytest.importorskip("buran.plugins.memory.outgrown").Outgrown(8.0, 16.0)
    function = ModelFunction(1.0, (2.0,), (Term((Factor(0, outgrown),)),))
    written = function.to_json()
    assert ModelFunction.from_json(written) == function
    remove("memory")
    with pytest.raises(FormatError, match="'outgrown'") as refused:
        ModelFunction.from_json(written)
    assert "'memory'" in str(refused.value.why)
