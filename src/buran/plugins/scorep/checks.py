"""What of a campaign file a Score-P would refuse, or Buran overwrite: looked at before anything is built.

What the installation is to answer is left open where it does not say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from buran.campaign.config import Campaign
from buran.campaign.mistakes import KeyPath, Mistake, did_you_mean, listed
from buran.errors import ToolError
from buran.measurement.toolchain.installed import find_tool, run_tool
from buran.plugins.scorep.feature import keys_of

_OWN = "leave it out: each run has a profile of its own, in the results"
_MEMORY = "write `scorep: {process_memory_mb: 256}`, in MB"
_FILTER = "write `refinement: {keep: [...], drop: [...]}`; the filter is made of what was measured"
_COUNTERS = "write `counters: [instructions]`, or `scorep: {effort_metric: NAME}` for what stands for basic blocks"
_OPTIONS = "write `scorep: {options: ...}`"
OVERWRITTEN = {
    **dict.fromkeys(
        (
            "SCOREP_EXPERIMENT_DIRECTORY", "SCOREP_OVERWRITE_EXPERIMENT_DIRECTORY", "SCOREP_ENABLE_PROFILING",
            "SCOREP_ENABLE_TRACING", "SCOREP_ENABLE_UNWINDING", "SCOREP_PROFILING_BASE_NAME",
            "SCOREP_PROFILING_FORMAT", "SCOREP_PROFILING_MAX_CALLPATH_DEPTH", "SCOREP_VERBOSE",
        ),
        _OWN,
    ),
    "SCOREP_TOTAL_MEMORY": _MEMORY,
    **dict.fromkeys(("SCOREP_FILTERING_FILE", "SCOREP_SELECTIVE_CONFIG_FILE"), _FILTER),
    **dict.fromkeys(
        ("SCOREP_METRIC_PAPI", "SCOREP_METRIC_PERF", "SCOREP_METRIC_RUSAGE", "SCOREP_METRIC_PLUGINS"), _COUNTERS
    ),
    **dict.fromkeys(("SCOREP_WRAPPER", "SCOREP_WRAPPER_INSTRUMENTER_FLAGS"), _OPTIONS),
    "SCOREP_WRAPPER_COMPILER_FLAGS": "write `program: {flags: ...}`",
}  # fmt: skip
"""Variables that the backend sets for every build or run, and what to write instead."""

_OPTION = re.compile(r"^ {2}(?:-\w, )?(--[a-z][\w-]*)", re.MULTILINE)
_VALUE = re.compile(r"^ {14}(\S+)$", re.MULTILINE)
_WITH_VALUES = ("--thread", "--mpp")


def scorep_mistakes(campaign: Campaign) -> Iterator[Mistake]:
    """Yield what a run would not do as the file says."""
    for name, environment in campaign.config.environments.items():
        for variable in environment.variables:
            if hint := OVERWRITTEN.get(variable):
                path = ("environments", name, "variables", variable)
                yield Mistake(path, f"{variable} has no effect", "Buran sets it for Score-P itself", hint)
    own = keys_of(campaign.config)
    if own.options:
        yield from _option_mistakes(own.options)
    if own.effort_metric is not None and own.effort_metric.startswith("PAPI_"):
        yield from _papi_mistakes(own.effort_metric)


def _option_mistakes(options: str) -> Iterator[Mistake]:
    known, path = _options(_said("scorep", "--help")), ("scorep", "options")
    for word in options.split() if known else ():
        name, _, value = word.partition("=")
        name = name.partition(":")[0]
        if re.fullmatch(r"-\w", word):
            continue
        if name not in known:
            why = f"it has: {listed(known, len(known))}"
            yield Mistake(path, f"Score-P knows no option {word!r}", why, did_you_mean(name, known))
        elif known[name] and value not in known[name]:
            why = f"this Score-P has: {listed(known[name])}"
            yield Mistake(path, f"{word!r} is not allowed", why, did_you_mean(value, known[name]))


def _options(text: str) -> Mapping[str, tuple[str, ...]]:
    """Return the options of a help text, with the values of those that take one of a few."""
    found = list(_OPTION.finditer(text))
    bounds = [*(match.start() for match in found[1:]), len(text)]
    options: dict[str, tuple[str, ...]] = {}
    for match, end in zip(found, bounds, strict=False):
        values = _VALUE.findall(text, match.end(), end) if match[1] in _WITH_VALUES else []
        # A paradigm alone stands for its first variant.
        options[match[1]] = tuple(dict.fromkeys(word for value in values for word in (value, value.partition(":")[0])))
    return options


def _papi_mistakes(metric: str) -> Iterator[Mistake]:
    path: KeyPath = ("scorep", "effort_metric")
    if re.search(r"^\s*PAPI support:\s+no\b", _said("scorep-info", "config-summary"), re.MULTILINE):
        why = "its summary (scorep-info config-summary) says: PAPI support no"
        hint = "name a metric of perf, such as instructions, or leave it out: Buran's own plugin counts basic blocks"
        yield Mistake(path, f"this Score-P cannot count {metric!r}", why, hint)
        return
    known = re.findall(r"^\s*(PAPI_\w+)\s+0x", _said("papi_avail"), re.MULTILINE)
    if known and metric not in known:
        hint = did_you_mean(metric, known) or "papi_avail lists what there is"
        yield Mistake(path, f"PAPI knows no {metric!r}", hint=hint)


def _said(name: str, *options: str) -> str:
    """Return what a tool says; nothing where it is missing or does not work."""
    program = find_tool(name)
    try:
        return "" if program is None else run_tool([program, *options], what=name)
    except ToolError:
        return ""
