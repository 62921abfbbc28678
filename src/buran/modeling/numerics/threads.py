"""How many threads linear algebra uses."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """Let linear algebra use one thread only, as long as it lasts.

    Products of small matrices gain nothing from several: their threads wait for each other, and take the time of cores
    that have other work.
    """
    limited: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return limited
