"""Score-P's own tool leaves of a profile what we take a filter to leave."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from buran.instrumentation.filter_file import parse
from buran.profiles.cubex_read import read_cubex
from buran.profiles.cubex_write import write_cubex

PROFILE = Path(__file__).parents[2] / "data" / "scorep" / "tree" / "names.p1n2000.r1" / "profile.cubex"
COMPILED = ("USR", "COM")  # Score-P's groups of regions that the compiler gave hooks
ROW = re.compile(
    r"^ [-+*] +[A-Z]+ +[\d,]+ +([\d,]+) .* (\S+)$", re.MULTILINE
)  # as in `` * ALL 184 5 0.26 97.8 51127.92 ALL-FLT``


def judged(rules: Path, profile: Path) -> dict[str, int]:
    """Return the visits of each group of regions in the table of ``scorep-score``."""
    done = subprocess.run(["scorep-score", "-f", rules, profile], capture_output=True, text=True, check=True)
    return {group: int(visits.replace(",", "")) for visits, group in ROW.findall(done.stdout)}


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
def test_score_p_reads_our_rules_as_we_do(kind: str, tmp_path: Path) -> None:
    """Of its own profile, and of the same one as we write it."""
    rules = tmp_path / "rules"
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
        found = judged(rules, path)
        assert sum(found.get(group, 0) for group in COMPILED) == visits[hooked].sum()
        assert sum(found.get(f"{group}-FLT", 0) for group in COMPILED) == visits[left].sum()
