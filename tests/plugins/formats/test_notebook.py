"""The notebook of the documentation runs from results to a figure."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from buran.files import not_synced
from buran.workflow.history import History
from buran.workflow.report import write_results
from buran.workflow.session import open_session
from buran_studies.simulate.in_process import carry_out

NOTEBOOK = Path(__file__).parents[3] / "docs" / "tutorial" / "results.ipynb"
PROGRAM = {
    "schema": "buran-program/1",
    "program": {"main": {"time_s": 0.01, "calls": {"solve": {"time_s": "1e-6 * n**2"}}}},
}
CAMPAIGN = {
    "name": "noted",
    "backend": "simulated",
    "simulated": "program.yaml",
    "parameters": {
        "p": {"role": "ranks", "values": [1, 2, 4, 8, 16]},
        "n": {"role": "size", "values": [100, 200, 300, 400, 500]},
    },
    "metrics": ["time", "visits"],
    "refinement": {"enabled": False},
    "strategy": {"name": "lines"},
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Jupyter's packages
def test_the_notebook_runs(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    (tmp_path / "program.yaml").write_text(yaml.safe_dump(PROGRAM))
    (tmp_path / "campaign.yaml").write_text(yaml.safe_dump(CAMPAIGN))
    with not_synced():
        session = open_session(tmp_path / "campaign.yaml")
        carry_out(session)
        write_results(History.open(session), session.layout.latest)
    assert "25 points" in session.campaign._repr_html_()
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    done = nbclient.NotebookClient(
        notebook, timeout=None, startup_timeout=600, resources={"metadata": {"path": str(tmp_path)}}
    )
    done.execute()
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "main-&gt;solve" in str(notebook.cells) or "main->solve" in str(notebook.cells)
    shown = [output["data"].get("text/html", "") for cell in notebook.cells for output in cell.get("outputs", ())]
    assert "Results of noted" in shown[0]
