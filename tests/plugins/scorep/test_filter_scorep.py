"""``buran filter --check FILTER --with scorep PROFILE``: Score-P's own tool judges a list."""

import json
import shutil
from pathlib import Path

import pytest

from buran.cli import main
from buran.instrumentation.filter_file import parse
from buran.profiles.cubex_read import read_cubex
from buran.profiles.cubex_write import write_cubex

PROFILE = Path(__file__).parents[2] / "data" / "scorep" / "tree" / "names.p1n2000.r1" / "profile.cubex"
RULES = "SCOREP_REGION_NAMES_BEGIN\nEXCLUDE *\nINCLUDE MANGLED main\nSCOREP_REGION_NAMES_END\n"
TABLE = """\
Estimated aggregate size of event trace:                   185 bytes

flt     type max_buf[B] visits time[s] time[%] time/visit[us]  region
 -       ALL    282,088 11,751    0.26   100.0          22.23  ALL
 -       USR    281,904 11,746    0.01     2.2           0.48  USR
 -       MPI        114      3    0.25    97.4       84849.23  MPI
 -       COM         24      1    0.00     0.4        1077.26  COM

 *       ALL        184      5    0.26    97.8       51127.92  ALL-FLT
 +       FLT    281,904 11,746    0.01     2.2           0.48  FLT
 *       COM         24      1    0.00     0.4        1077.26  COM-FLT
"""


@pytest.fixture
def rules(tmp_path):
    (tmp_path / "rules").write_text(RULES)
    return tmp_path / "rules"


def judged(rules, capsys, *words):
    code = main(["filter", "--check", str(rules), "--with", "scorep", str(PROFILE), *words])
    return code, capsys.readouterr()


@pytest.fixture(params=["recorded", "real"])
def tool(request, tmp_path, monkeypatch):
    """What a real one said, and the real one where it is installed."""
    if request.param == "real" and shutil.which("scorep-score") is None:
        pytest.skip("Score-P is not installed")
    if request.param == "recorded":
        (tmp_path / "bin").mkdir()
        stand_in = tmp_path / "bin" / "scorep-score"
        stand_in.write_text(f"#!/bin/sh\ncat <<END\n{TABLE}END\n")
        stand_in.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")


def test_what_is_left_of_a_profile(tool, rules, capsys):
    code, said = judged(rules, capsys)
    assert code == 0
    assert "visits left: 1 of 11747" in said.out and "trace left: 184 of 282088 bytes" in said.out
    code, said = judged(rules, capsys, "--json", "--visit-cost", "1000")
    found = json.loads(said.out)
    assert code == 0 and found["overhead"] == pytest.approx(1e-6 / (0.26 - 11747e-6), rel=0.05)


def test_without_the_tool_it_is_said(rules, capsys, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    code, said = judged(rules, capsys)
    assert code and "scorep-score" in said.err


def test_another_judge_is_not_known(rules, capsys):
    assert main(["filter", "--check", str(rules), "--with", "tau", str(PROFILE)])
    assert "knows scorep alone" in capsys.readouterr().err


def test_a_filter_with_a_mistake_is_refused_before(rules, capsys):
    rules.write_text("EXCLUDE *\n")
    code, said = judged(rules, capsys)
    assert code and "syntax error" in said.err


def test_a_table_of_another_kind_is_refused(rules, capsys, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    stand_in = tmp_path / "bin" / "scorep-score"
    stand_in.write_text("#!/bin/sh\necho hello\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    code, said = judged(rules, capsys)
    assert code and "not as expected" in said.err


KINDS_OF_RULES = {
    "wildcards": "SCOREP_REGION_NAMES_BEGIN\nEXCLUDE *\nINCLUDE MANGLED *less* main\nSCOREP_REGION_NAMES_END\n",
    "names as shown": "SCOREP_REGION_NAMES_BEGIN\nEXCLUDE double\\ *\nINCLUDE *{anonymous}*\nSCOREP_REGION_NAMES_END\n",
    "a set": "SCOREP_REGION_NAMES_BEGIN\nEXCLUDE MANGLED _Z[0-9]*\nSCOREP_REGION_NAMES_END\n",
    "files": "SCOREP_FILE_NAMES_BEGIN\nEXCLUDE *names.cpp\nSCOREP_FILE_NAMES_END\n",
    "files and names": "SCOREP_FILE_NAMES_BEGIN\nEXCLUDE *\nINCLUDE *.f90\nSCOREP_FILE_NAMES_END\n"
    "SCOREP_REGION_NAMES_BEGIN\nEXCLUDE MANGLED *inner*\nSCOREP_REGION_NAMES_END\n",
    "nothing matches": "SCOREP_REGION_NAMES_BEGIN\nEXCLUDE *\nINCLUDE nowhere\nSCOREP_REGION_NAMES_END\n",
}


@pytest.mark.skipif(shutil.which("scorep-score") is None, reason="Score-P is not installed")
@pytest.mark.parametrize("kind", KINDS_OF_RULES)
def test_score_p_reads_our_rules_as_we_do(kind, rules, capsys, tmp_path):
    """Of its own profile, and of the same one as we write it."""
    rules.write_text(KINDS_OF_RULES[kind])
    profile, own = read_cubex(PROFILE), parse(KINDS_OF_RULES[kind])
    visits = profile.exclusive("visits").sum(axis=1)
    regions = [profile.tree.regions[number] for number in profile.tree.region]
    hooked = [each.paradigm == "compiler" for each in regions]
    left = [
        hook and own.matches(each.name, each.mangled, each.file) for hook, each in zip(hooked, regions, strict=True)
    ]
    assert 0 <= visits[left].sum() < visits[hooked].sum()
    write_cubex(profile, tmp_path / "profile.cubex")
    for path in (PROFILE, tmp_path / "profile.cubex"):
        assert main(["filter", "--check", str(rules), "--with", "scorep", str(path), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["visits"], found["visits_left"]) == (visits[hooked].sum(), visits[left].sum())
