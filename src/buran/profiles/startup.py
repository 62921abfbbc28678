"""Starting and ending MPI: call paths that are an account of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from buran.profiles.profile import SEPARATOR

STARTUP = ("MPI_Init", "MPI_Init_thread", "MPI_Session_init", "MPI_Session_finalize", "MPI_Finalize")
"""A share of short runs that no function of the program causes."""


def is_startup_or_shutdown(call_paths: Sequence[str]) -> NDArray[np.bool_]:
    """Return shape (call path,): whether it starts or ends MPI."""
    return np.array([name.rpartition(SEPARATOR)[2] in STARTUP for name in call_paths], dtype=np.bool_)
