"""The ground truth of generated programs as the description of a simulated one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from buran.errors import ConfigError
from buran.modeling.functions.terms import ModelFunction
from buran.modeling.pmnf.text import format_function

TRUTH_SCHEMA = "buran-truth/1"
ROUND_S = 2e-9
LATENCY_S = 2e-6
BYTE_S = 1e-10


def program_of_truth(data: Mapping[str, Any], parameters: Sequence[str], where: str) -> dict[str, Any]:
    """Return a description: a round takes `ROUND_S`, a message `LATENCY_S` and `BYTE_S` for each byte.

    Raises
    ------
    ConfigError
        The campaign lacks a parameter of the program, or the file is damaged.
    """
    try:
        own = list(map(str, data["parameters"]))
        lacking = [name for name in own if name not in parameters]
        if lacking:
            raise ConfigError(f"the campaign has no parameter {lacking[0]!r}, which the program has", where=where)
        kernels = {kernel["kernel"]: _kernel(kernel, own) for kernel in data["kernels"]}
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ConfigError("the ground truth is damaged", where=where, why=f"missing or wrong: {error}") from None
    return {"startup_s": 0.01, "program": {"main": {"time_s": 1e-4, "calls": kernels}}}


def _kernel(kernel: Mapping[str, Any], parameters: Sequence[str]) -> dict[str, Any]:
    rounds = _expression(kernel["basic_blocks"]["rounds"], parameters)
    out: dict[str, Any] = {"time_s": f"{ROUND_S} * ({rounds})", "basic_blocks": f"floor({rounds})"}
    if "communication" in kernel:
        own = kernel["communication"]
        keys = ("visits", "bytes_sent", "bytes_received")
        visits, sent, received = (_expression(own[key], parameters) for key in keys)
        operation = {
            "time_s": f"{LATENCY_S} * ({visits}) + {BYTE_S} * (({sent}) + ({received}))",
            "visits": f"floor({visits})",
            "bytes_sent": f"floor({sent})",
            "bytes_received": f"floor({received})",
        }
        out["calls"] = {own["operation"]: operation}
    return out


def _expression(function: Mapping[str, Any], parameters: Sequence[str]) -> str:
    return format_function(ModelFunction.from_json(function), parameters, "python")
