"""Queries for functions."""

import numpy as np
import pytest

from buran.errors import UsageError
from buran.instrumentation.selection import select
from call_graphs import graph_of

NAMES = ("main", "solve", "kernel", "exchange", "MPI_Send", "helper")
GRAPH = graph_of(
    NAMES,
    [(0, 1), (1, 2), (1, 3), (3, 4), (2, 5)],
    name=("main", "void solve(int)", "kernel()", "exchange()", "MPI_Send", "helper()"),
    file=("main.c", "src/solve.c", "src/kernel.c", "src/mpi.c", "", "lib/helper.h"),
    has_body=(True, True, True, True, False, True),
    inline=(False, False, False, False, False, True),
    features={"statements": (5, 10, 40, 8, -1, 1), "loop_depth": (0, 1, 3, 0, -1, 0)},
)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('name("kernel*")', "kernel"),
        ('name("solve", "exchange")', "solve exchange"),
        ('name("void solve*")', "solve"),
        ('file("src/*")', "solve kernel exchange"),
        ('paths_to(name("MPI_*"))', "main solve exchange MPI_Send"),
        ('paths_from(name("kernel"))', "kernel helper"),
        ('paths_to(name("kernel")) & paths_from(name("solve"))', "solve kernel"),
        ("inline", "helper"),
        ("loops(1)", "solve kernel"),
        ("statements(8) - loops(3)", "solve exchange"),
        ("below(41)", "main solve kernel"),
        ("defined & ~inline - main", "solve kernel exchange"),
        ("callers(name('kernel')) | callees(main)", "solve"),
        ("all - all", ""),
        ("  main  ", "main"),
    ],
)
def test_what_queries_find(query, expected):
    assert [NAMES[i] for i in np.flatnonzero(select(GRAPH, query))] == expected.split()


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("", "cannot be read"),
        ("name(", "cannot be read"),
        ("unknown", "expected a set"),
        ("name(3)", "text in quotes"),
        ("loops('x')", "whole number"),
        ("loops(True)", "whole number"),
        ("loops(1, 2)", "takes one argument"),
        ("nothing(main)", "no function 'nothing'"),
        ("main + inline", "expected a set"),
        ("__import__('os').system('true')", "expected a set"),
        ("main if inline else all", "expected a set"),
        ("~" * 20_000 + "main", "cannot be read"),
        ("main|" * 20_000 + "main", "cannot be read"),
    ],
)
def test_mistakes_are_named(query, why):
    with pytest.raises(UsageError) as caught:
        select(GRAPH, query)
    assert why in str(caught.value)
