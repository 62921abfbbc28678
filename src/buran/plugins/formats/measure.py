"""The key ``measure`` of campaign files: a tool that measures the program as it is, with what it needs to know.

It is short for keys of the section ``command``. Each rank leaves a file of its own in the folder `_FILES`, whose name
has host and process; a run without the files of all ranks is a failed one.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, StringConstraints, ValidationError, model_validator

from buran.campaign.document import YamlDocument
from buran.campaign.identity import Keys
from buran.campaign.mistakes import CampaignError, KeyPath, Mistake, spelled
from buran.campaign.values import NumberPattern, OfTarget, OneOf, OrText
from buran.features import Feature, Key

if TYPE_CHECKING:
    from buran.campaign.config import Campaign
    from buran.campaign.shape import CampaignFile
    from buran.measurement.schedulers.base import Scheduler

MEASURE = "measure"
_FILES = "measured"
_NAME = "$(uname -n)-$$"
_EVENTS = ("task-clock", "page-faults", "context-switches")
"""Which the kernel counts on every machine."""
_TRY_S = 10.0

_Event = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_./:=-]*$")]


class MeasureKeys(Keys, title="Measure"):
    """A tool that measures the program as it is."""

    @model_validator(mode="before")
    @classmethod
    def _spelled_out(cls, data: object) -> object:
        return {"tool": data} if isinstance(data, str) else data

    tool: OfTarget[Annotated[str, OneOf(lambda: tuple(_TOOLS))]] = Field(
        description="`perf`: events. `gprof`: time and visits of functions. `hpctoolkit`, `tau`: of "
        "call paths. `caliper`: time of marked regions. `printed`: the program's clock."
    )
    events: OfTarget[tuple[_Event, ...]] = Field(
        (),
        description=f"Of `perf list`; each is a metric. By default {', '.join(_EVENTS)}.",
        examples=[["instructions"]],
    )
    clock: OfTarget[NumberPattern | None] = Field(None, description="As `command.clock`.")

    @property
    def counted(self) -> tuple[str, ...]:
        """Events of perf."""
        return self.events or _EVENTS


@dataclass(frozen=True)
class _Command:
    """Keys of the section ``command`` that a tool stands for; empty ones are left out."""

    profile: str = ""
    format: str = ""
    wrapper: str = ""
    extra_flags: str = ""
    afterwards: str = ""
    clock: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    further_metrics: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Preset:
    """What a tool needs.

    Attributes
    ----------
    command
        Keys of the section ``command``.
    metrics
        What is modelled, where the campaign does not say it.
    programs
        Which the machine must have.
    install
        How they come there.
    extra
        Module that the reader needs, and the extra with it.
    """

    command: Callable[[MeasureKeys], _Command]
    metrics: tuple[str, ...] = ("time",)
    programs: tuple[str, ...] = ()
    install: str = ""
    extra: tuple[str, str] | None = None


def _all_ranks(files: str) -> str:
    """Return shell code that fails unless each rank left one of some files."""
    wrong = '{ echo "$n of $BURAN_RANKS ranks left a file"; exit 1; }'
    return f'n=$(ls {files} | wc -l); test "$n" -eq "$BURAN_RANKS" || {wrong}'


def _perf(keys: MeasureKeys) -> _Command:
    from buran.plugins.formats.perf_stat import metric_of_event

    script = f'mkdir -p {_FILES} && exec perf stat -x, -e {",".join(keys.counted)} -o {_FILES}/{_NAME}.csv -- "$@"'
    return _Command(
        _FILES,
        "perf",
        wrapper=f"sh -c '{script}' perf",
        afterwards=_all_ranks(_FILES),
        further_metrics=tuple(map(metric_of_event, keys.counted)),
    )


def _gprof(keys: MeasureKeys) -> _Command:
    script = 'mkdir -p gmon && exec env GMON_OUT_PREFIX="$PWD/gmon/$(uname -n)" "$@"'
    each = f'gprof -b -p "$BURAN_BINARY" "$f" > "{_FILES}/${{f##*/}}.txt" || exit 1'
    return _Command(
        _FILES,
        "gprof",
        extra_flags="-pg",
        wrapper=f"sh -c '{script}' gprof",
        afterwards=f"mkdir {_FILES} && for f in gmon/*; do {each}; done; {_all_ranks(_FILES)}",
    )


def _hpctoolkit(keys: MeasureKeys) -> _Command:
    return _Command(
        "database",
        "hpctoolkit",
        wrapper=f"hpcrun -e CPUTIME -o {_FILES}",
        afterwards=f"{_all_ranks(_FILES + '/*-000-*.hpcrun')}; hpcstruct {_FILES} && hpcprof -o database {_FILES}",
    )


def _tau(keys: MeasureKeys) -> _Command:
    return _Command(
        _FILES,
        "tau",
        wrapper="tau_exec -T mpi",
        extra_flags="-g -no-pie -finstrument-functions",
        variables={"TAU_CALLPATH": "1", "TAU_CALLPATH_DEPTH": "100", "TAU_METRICS": "TIME:CPU_TIME"},
        afterwards=f"{_all_ranks('MULTI__TIME/profile.*.0.0')}; mkdir {_FILES} && mv MULTI__* {_FILES}",
        further_metrics=("cpu_time",),
    )


def _caliper(keys: MeasureKeys) -> _Command:
    variables = {"CALI_CONFIG": "hatchet-region-profile,output=profile.json"}
    return _Command("profile.json", "caliper", variables=variables)


_TOOLS: Mapping[str, _Preset] = {
    "perf": _Preset(_perf, programs=("perf",), install="Debian: linux-perf; others: perf, or linux-tools"),
    "gprof": _Preset(_gprof, ("time", "visits"), ("gprof",), "it comes with the compiler, in binutils"),
    "hpctoolkit": _Preset(
        _hpctoolkit,
        programs=("hpcrun", "hpcstruct", "hpcprof"),
        install="Spack: spack install hpctoolkit, or a module",
        extra=("hatchet", "hatchet"),
    ),
    "tau": _Preset(
        _tau, ("time", "visits"), ("tau_exec",), "built with MPI and BFD: spack install tau", ("hatchet", "hatchet")
    ),
    "caliper": _Preset(_caliper),
    "printed": _Preset(lambda keys: _Command(clock=keys.clock)),
}


def _base(document: YamlDocument) -> YamlDocument:
    """Write the keys that a tool stands for into a campaign."""
    try:
        keys = MeasureKeys.model_validate(document.data.get(MEASURE))
    except ValidationError:
        return document  # it has none, or the shape of files refuses it
    own = document.data.get("command", {})
    if not isinstance(own, Mapping) or (keys.tool == "printed" and keys.clock is None):
        return document
    tool, own_path = _TOOLS[keys.tool], (MEASURE,)
    command = tool.command(keys)
    written = {key: value for key, value in vars(command).items() if value}
    for path, value in ((("backend",), "command"), *((("command", key), value) for key, value in written.items())):
        there = document.data if len(path) == 1 else own
        name = path[-1]
        if name in there and there[name] != value and name not in ("variables", "further_metrics"):
            what = f"`{MEASURE}: {keys.tool}` writes {spelled(path)} itself"
            hint = f"leave {spelled(path)} out, or write the section command without {MEASURE}"
            why = f"line {document.line(own_path)} has the one, line {document.line(path)} the other"
            raise CampaignError([document.located(Mistake(path, what, why, hint))])
    if isinstance(own.get("variables"), Mapping):
        written["variables"] = {**command.variables, **own["variables"]}
    if isinstance(own.get("further_metrics"), tuple):
        metrics = (*command.further_metrics, *own["further_metrics"])
        written["further_metrics"] = tuple(dict.fromkeys(metrics))
    data = {"metrics": tool.metrics, **document.data, "backend": "command", "command": {**own, **written}}
    new: list[KeyPath] = [("backend",), ("metrics",), ("command",), *(("command", key) for key in written)]
    lines = dict.fromkeys(new, document.line(own_path))
    files = dict.fromkeys(new, document.files.get(own_path, document.path))
    return replace(document, data=data, lines={**lines, **document.lines}, files={**files, **document.files})


def _mistakes(config: CampaignFile, environment: str) -> Iterator[Mistake]:
    """Refuse keys of other tools, and what a tool cannot say."""
    keys: MeasureKeys | None = getattr(config, MEASURE)
    if keys is None:
        return
    for name, of in (("events", "perf"), ("clock", "printed")):
        if getattr(keys, name) and keys.tool != of:
            yield Mistake((MEASURE, name), f"{name} is of {of}", f"the tool is {keys.tool}", "leave it out")
    if keys.tool == "printed" and keys.clock is None:
        hint = "write clock: 'solve: (\\S+) s', for example"
        yield Mistake((MEASURE,), "which line of the output has the time?", "printed needs a clock", hint)
    if keys.tool == "perf":
        from buran.plugins.formats.perf_stat import metric_of_event

        twice = [name for name, number in Counter(map(metric_of_event, keys.counted)).items() if number > 1]
        if twice:
            yield Mistake((MEASURE, "events"), f"two events are the metric {twice[0]}", hint="leave one of them out")
    if config.aggregate != "mean" and keys.tool != "printed":
        why = "what tools leave is read as the mean over ranks"
        yield Mistake(("aggregate",), f"there is no {config.aggregate} with {MEASURE}", why, "leave it out")


def _ahead(campaign: Campaign, scheduler: Scheduler) -> Iterator[str]:
    """Say what is missing on this machine."""
    keys: MeasureKeys | None = getattr(campaign.config, MEASURE)
    if keys is None:
        return
    tool = _TOOLS[keys.tool]
    missing = [program for program in tool.programs if shutil.which(program) is None]
    if missing:
        loaded = ", unless a module of the environment brings it" if campaign.active_environment.modules else ""
        yield f"{', '.join(missing)} cannot be found here{loaded}: measured runs would fail ({tool.install})"
    elif keys.tool == "perf":
        yield from _uncounted(keys)
    if tool.extra is not None and find_spec(tool.extra[0]) is None:
        yield f"what {keys.tool} leaves cannot be read here: pip install 'buran[{tool.extra[1]}]'"


def _uncounted(keys: MeasureKeys) -> Iterator[str]:
    """Say which events this machine does not count."""
    command = ["perf", "stat", "-x,", "-e", ",".join(keys.counted), "--", "true"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TRY_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        yield f"perf does not work here: {error}"
        return
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    refused = [line.split(",")[2] for line in lines if line.startswith("<not supported>")]
    if done.returncode:
        yield f"perf does not work here: {lines[0] if lines else done.returncode}; see `perf stat true`"
    elif refused:
        yield f"perf does not count {', '.join(refused)} here, as virtual machines do not: measured runs would fail"


FEATURE = Feature(
    MEASURE,
    Key(
        Annotated[MeasureKeys, OrText()] | None,
        None,
        "A tool that measures the program as it is: short for keys of `command`. A text is its `tool`.",
        ["perf", {"tool": "printed", "clock": r"solve: (\S+) s"}],
    ),
    base=_base,
    mistakes=_mistakes,
    identity=lambda campaign: {},  # what it stands for counts
    ahead=_ahead,
)
