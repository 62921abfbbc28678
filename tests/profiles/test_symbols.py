"""Symbols of one program under two compilers, as gcc 12 and clang 16 really made them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.profiles.profile import CallTree, Region
from buran.profiles.symbols import PROGRAM, identities, variants

LAMBDAS = """\
#include <vector>
template<class F> int apply(F f){ return f(3); }
inline int in_header(){ auto h=[](int a){return a*2;}; return h(2); }
struct S { S(int); S(); virtual ~S(); int v; int m(){ auto q=[this](int z){return z+v;}; return q(1);} };
S::S(int a):v(a){}
S::S():S(3){}
S::~S(){}
int two(std::vector<int> const& x){
  auto a=[&](std::vector<int> const& y){ return (int)(x.size()+y.size()); };
  auto b=[&](std::vector<int> const& y){
    auto c=[](int k){return k;};
    return c((int)y.size()); };
  auto g=[](auto k, int m){return k + m;};
  return a(x)+b(x)+g(1,2)+(int)g(1.0,2)
    +apply([](int k){return k+1;})
    +apply([](int k){return k+2;});
}
int main(){ S s; return two({1,2})+in_header()+s.m(); }
"""


def region(symbol: str, line: int = 0, file: str = "a.cpp") -> Region:
    return Region(symbol, symbol, file, line)


def _functions(compiler: str, folder: Path) -> list[Region]:
    """Compile, and return the functions with the lines of their beginnings, from the debug information."""
    source = folder / "lambdas.cpp"
    source.write_text(LAMBDAS)
    binary = folder / compiler.replace("+", "p")
    subprocess.run([compiler, "-O0", "-gdwarf-4", "-o", binary, source], check=True)
    shown = subprocess.run(["nm", "--line-numbers", binary], check=True, capture_output=True, text=True).stdout
    regions = []
    for line in shown.splitlines():
        words, _, place = line.partition("\t")
        name = words.split()[-1]
        if "lambdas.cpp" in place and words.split()[1] in "tTwW":
            regions.append(region(name, int(place.rpartition(":")[2]), "lambdas.cpp"))
    return regions


def test_gcc_and_clang_agree_on_every_function(tmp_path: Path) -> None:
    clang = shutil.which("clang++-16") or shutil.which("clang++")
    if clang is None or shutil.which("g++") is None or shutil.which("nm") is None:
        pytest.skip("needs g++, clang++ and nm")
    first, second = (set(identities(_functions(name, tmp_path))) for name in ("g++", Path(clang).name))
    lambdas = {name for name in first if "lambdas.cpp:" in name}
    assert len(lambdas) == 11  # eight functions, one of them twice, and two instances of apply
    assert first == second


@pytest.mark.parametrize(
    ("gcc", "clang", "line"),
    [
        ("_ZZ4mainENKUldE_clEd", "_ZZ4mainENK3$_0clEd", 77),
        ("_ZZ5outerdiENKUlT_iE0_clIdEEDaS_i", "_ZZ5outerdiENK3$_0clIdEEDaT_i", 43),
        (
            "_ZZ3twoRKSt6vectorIiSaIiEEENKUlS3_E0_clES3_",
            "_ZZ3twoRKSt6vectorIiSaIiEEENK4$_12clERKSt6vectorIiSaIiEE",
            9,
        ),
    ],
)
def test_a_lambda_is_told_by_its_line(gcc: str, clang: str, line: int) -> None:
    first, second = identities([region(gcc, line)])[0], identities([region(clang, line)])[0]
    assert first.partition("clE")[0] == second.partition("clE")[0]
    assert f"a.cpp:{line}" in first


def test_lambdas_on_one_line_keep_the_symbols_of_their_compiler() -> None:
    pair = ["_ZZ1fvENKUliE_clEi", "_ZZ1fvENKUldE_clEd"]
    assert identities([region(each, 5) for each in pair]) == tuple(pair)
    assert identities([region(pair[0])]) == (pair[0],)  # no line is known


def test_what_is_called_with_a_lambda_is_told_by_that_lambda() -> None:
    apply, body = region("_Z5applyIZ1fvEUliE_EiT_", 2), region("_ZZ1fvENKUliE_clEi", 7)
    other_apply, other = region("_Z5applyIZ1fvE3$_4EiT_", 2), region("_ZZ1fvENK3$_4clEi", 7)
    assert identities([apply, body])[0] == identities([other_apply, other])[0]
    assert identities([apply])[0] == apply.mangled  # its lambda was not recorded


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("_ZN1SC1Ei", ("_ZN1SC1Ei", "_ZN1SC2Ei")),
        ("_ZN4BaseD0Ev", ("_ZN4BaseD0Ev", "_ZN4BaseD1Ev", "_ZN4BaseD2Ev")),
        ("_ZN3lib4GridIdLi8EEC2Ev", ("_ZN3lib4GridIdLi8EEC1Ev", "_ZN3lib4GridIdLi8EEC2Ev")),
        ("_ZN4ABC1Ev", ("_ZN4ABC1Ev",)),  # a function whose name looks like a constructor
        ("_Z3C1Ev", ("_Z3C1Ev",)),
        ("plain_c", ("plain_c",)),
    ],
)
def test_constructors_and_destructors_have_several_symbols(symbol: str, expected: tuple[str, ...]) -> None:
    assert variants(symbol) == expected
    assert len(set(identities([region(each) for each in expected]))) == 1


@pytest.mark.parametrize(
    ("symbol", "clone"), [("_Z1fv", "_Z1fv.constprop.0"), ("inner", "inner.0"), ("g", "g.part.1.cold")]
)
def test_clones_and_contained_procedures_lose_their_numbers(symbol: str, clone: str) -> None:
    assert identities([region(symbol)]) == identities([region(clone)])


def test_the_program_is_one_region_whatever_its_name_and_arguments() -> None:
    roots = [Region(name, line, "", 0, "measurement", "artificial") for name, line in (("a", "/x/a 1"), ("b", "b 2"))]
    threads = Region("THREADS", "THREADS", "", 0, "measurement", "artificial")
    for root in roots:
        tree = CallTree((threads, root, region("main")), np.array([1, 2, 0]), np.array([-1, 0, -1]))
        assert tree.identities == ("THREADS", PROGRAM, "main")
    nested = CallTree(tuple(roots), np.array([0, 1, 0]), np.array([-1, 0, 1]))
    assert nested.identities == ("/x/a 1", "b 2")  # only what is a root alone stands for the program


@given(st.lists(st.text(alphabet="_ZNKSTUl13$EvidCDI4abc.", max_size=40), max_size=6))
def test_any_text_is_some_symbol(symbols: list[str]) -> None:
    regions = [region(symbol, number + 1) for number, symbol in enumerate(symbols)]
    assert len(identities(regions)) == len(symbols)
    for symbol in symbols:
        assert symbol in (*variants(symbol), symbol)


def test_a_tree_knows_its_identities() -> None:
    tree = CallTree((region("_ZN1SC1Ei"), region("_ZN1SC2Ei")), np.array([0, 1]), np.array([-1, 0]))
    assert tree.identities == ("_ZN1SC1Ei", "_ZN1SC1Ei")
