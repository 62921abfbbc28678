"""The first refinement: which functions stay instrumented."""

from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest
from refining import refine

from buran.errors import UsageError
from buran.instrumentation.filter_file import parse
from buran.instrumentation.filter_list import WRITERS, list_of
from buran.instrumentation.refinement import Wishes, predicted_overhead
from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Factor, ModelFunction, Term
from buran.modeling.pmnf import Model, ModelSet, Quality
from buran.profiles.profile import CallTree, Region

ASKED = Wishes(constants=True, overhead=None)
QUALITY = Quality(5, 0.0, 0.0, 0.0, 1.0, 0.0)
REGIONS = (
    Region("main"),
    Region("int solve(int)", "_Z5solvei"),
    Region("kernel()", "_Z6kernelv"),
    Region("tiny()", "_Z4tinyv"),
    Region("exchange()", "_Z8exchangev"),
    Region("MPI_Waitall", paradigm="mpi"),
    Region("setup()", "_Z5setupv"),
)
TREE = CallTree(
    REGIONS,
    #         main solve kernel tiny exchange MPI setup tiny
    np.array([0, 1, 2, 3, 4, 5, 6, 3]),
    np.array([-1, 0, 1, 2, 1, 4, 0, 6]),
)


def model(constant: float, coefficient: float = 0.0, power: int = 1) -> Model:
    if not coefficient:
        return Model(ModelFunction(constant), QUALITY)
    return Model(ModelFunction(constant, (coefficient,), (Term((Factor(0, PowerLog(F(power), 0)),)),)), QUALITY)


def model_set(metric: str, models, tree: CallTree = TREE) -> ModelSet:
    return ModelSet(("p",), metric, "sec", tree.names, tuple(models), "mean", "median", ((4.0,), (8.0,)))


def times(**changes: Model | None) -> ModelSet:
    """One second at p = 100 for the kernel and a hundredth in MPI, nothing else of weight."""
    by_path = {
        "main": model(1e-5), "solve": model(1e-5), "kernel": model(0, 1e-4, 2), "tiny": model(1e-4),
        "exchange": model(1e-5), "mpi": model(0, 3e-4), "setup": model(5e-3), "setup_tiny": model(1e-4),
    }  # fmt: skip
    return model_set("time", (by_path | changes).values())


def kept(refinement) -> set[str]:
    return {region.name for region, keep in zip(REGIONS, refinement.keep, strict=True) if keep}


def test_functions_that_matter_and_the_way_to_them():
    result = refine(TREE, times(), None, [100.0])
    assert kept(result) == {"main", "int solve(int)", "kernel()", "exchange()"}
    assert result.names == ("_Z5solvei", "_Z6kernelv", "_Z8exchangev", "main")
    assert result.total_s == pytest.approx(1 + 0.03 + 5e-3 + 2e-4 + 3e-5)
    assert np.nansum(result.prediction.path_share) == pytest.approx(1)


def test_the_target_decides():
    near = refine(TREE, times(), None, [2.0], ASKED)
    assert "setup()" in kept(near)
    assert "setup()" not in kept(refine(TREE, times(), None, [1000.0], ASKED))


def test_mpi_regions_are_never_named():
    result = refine(TREE, times(mpi=model(0, 1.0)), None, [100.0], Wishes(share=0.5))
    assert "MPI_Waitall" not in WRITERS["scorep"](list_of(result))
    assert kept(result) == {"main", "int solve(int)", "exchange()"}
    assert "always measured" in result.reasons[5]


def test_the_share_is_that_of_all_call_paths_of_a_function():
    many = refine(TREE, times(tiny=model(7e-3), setup_tiny=model(7e-3)), None, [100.0], ASKED)
    assert {"tiny()", "setup()"} <= kept(many)
    less = times(tiny=model(4e-3), setup=model(1e-4))
    assert "tiny()" not in kept(refine(TREE, less, None, [100.0], ASKED))


def test_what_counts_do_not_allow_leaves_the_kernel_its_share():
    absurd = times(mpi=model(0, 1e-2, 5))
    assert "kernel()" not in kept(refine(TREE, absurd, None, [100.0]))
    work = replace(model_set("basic_blocks", [model(1)] * 2 + [model(0, 1, 2)] + [model(1)] * 5), unit="occ")
    assert "kernel()" in kept(refine(TREE, absurd, None, [100.0], work=[work]))


def test_a_leaf_that_is_mostly_hooks_is_dropped():
    counts = model_set("visits", [model(1)] * 3 + [model(1e5)] + [model(1)] * 4)
    own = times(tiny=model(1.5e-2))  # above the share; 1e5 visits cost 1.2e-2 s of it
    assert "tiny()" in kept(refine(TREE, own, None, [100.0], ASKED))
    result = refine(TREE, own, counts, [100.0], ASKED, visit_cost_s=120e-9)
    assert "tiny()" not in kept(result)
    assert "instrumentation would take" in result.reasons[3]
    assert "tiny()" in kept(refine(TREE, own, counts, [100.0], ASKED, visit_cost_s=1e-9))
    assert "tiny()" in kept(
        refine(TREE, own, counts, [100.0], Wishes(constants=True, overhead=None, hook_share=0.9), visit_cost_s=120e-9)
    )


def test_a_function_that_calls_others_is_not_dropped_for_its_hooks():
    counts = model_set("visits", [model(1)] * 2 + [model(1e8)] + [model(1)] * 5)
    assert "kernel()" in kept(refine(TREE, times(), counts, [100.0], ASKED))


def test_without_a_model_a_call_path_is_kept_and_named():
    result = refine(TREE, times(setup=None), None, [100.0])
    assert "setup()" in kept(result)
    assert result.reasons[6] == "no model yet"
    assert result.unknown == ("main->setup()",)
    assert "1 call path" in WRITERS["scorep"](list_of(result))
    assert np.isnan(result.prediction.share[6])


def test_main_is_always_there():
    tree = CallTree((Region("work()", "_Z4workv"),), np.array([0]), np.array([-1]))
    result = refine(tree, model_set("time", [model(0, 1.0)], tree), None, [8.0])
    assert result.names == ("_Z4workv", "main")
    nothing = refine(TREE, model_set("time", [model(0.0)] * 8), None, [4.0])
    assert kept(nothing) == {"main"}
    fortran = CallTree((Region("MAIN__"),), np.array([0]), np.array([-1]))
    assert refine(fortran, model_set("time", [model(0, 1.0)], fortran), None, [8.0]).names == ("MAIN__",)


def test_the_filter_file_says_why_and_lets_exactly_these_through():
    result = refine(TREE, times(), None, [100.0])
    text = WRITERS["scorep"](list_of(result))
    assert text.startswith(f"# {result.head[0]}\n") and f"{result.total_s:.4g}" in result.head[0]
    for i in (1, 2):
        assert f"# {REGIONS[i].name}: {result.reasons[i]}\n" in text
    assert "96.6 %" in result.reasons[2]
    rules = parse(text)
    assert {r.name for r in REGIONS if rules.matches(r.name, r.mangled) and r.paradigm == "compiler"} == kept(result)


@pytest.mark.parametrize("target", [[1.0, 2.0], [], [np.nan]])
def test_a_target_that_does_not_fit_is_refused(target):
    with pytest.raises(UsageError, match="does not fit"):
        refine(TREE, times(), None, target)


def test_models_of_another_tree_are_refused():
    other = CallTree((Region("main"),), np.array([0]), np.array([-1]))
    with pytest.raises(UsageError, match="do not belong"):
        refine(other, times(), None, [100.0])


@pytest.mark.parametrize(
    "wrong", [{"share": -0.1}, {"share": 1.5}, {"hook_share": -1}, {"coverage": 2}, {"overhead": 0}]
)
def test_thresholds_out_of_range_are_refused(wrong):
    with pytest.raises(UsageError, match="out of range"):
        Wishes(**wrong)


def test_what_a_list_predicts_is_read_from_it_again():
    result = refine(TREE, times(), model_set("visits", [model(1e3)] * 8), [100.0], visit_cost_s=1e-7)
    text = WRITERS["scorep"](list_of(result))
    assert predicted_overhead(text) == pytest.approx(result.limited[1], rel=0.05)
    assert predicted_overhead(None) is None and predicted_overhead("# a note\nSCOREP_REGION_NAMES_BEGIN\n") is None
