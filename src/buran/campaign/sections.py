"""The sections of a campaign file: every key with its type, limits, default, meaning and what it decides."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from buran.campaign.identity import Keys
from buran.campaign.point import FEWEST, Value, canonical
from buran.campaign.values import (
    Argument,
    Duration,
    Formula,
    Identifier,
    Inside,
    JobOptions,
    Number,
    NumberPattern,
    OfAnalysis,
    OfPlan,
    OfQueue,
    OfRun,
    OfTarget,
    ParameterValue,
    Plain,
    Seconds,
    StrategyName,
    Terms,
    Text,
    Word,
    budget_in,
)

MOST_VALUES = 10_000
"""Of a range."""


class InputKeys(Keys):
    """A file or folder that runs read.

    Attributes
    ----------
    path
        File or folder, relative to this file, or in the build folder: `{build}/data`.
    name
        Its name in the run's folder; by default its own. `.`: what is in the folder, without the folder.
    link
        Whether runs get a symbolic link instead of a copy, for large files. A run that writes to one fails.
    fill
        Whether parameters, `values` and `{=expressions}` in braces are filled into its text, as into the run command.
        `{{` and `}}` stand for braces.
    """

    path: OfRun[Text] = Field(examples=["{build}/inputs/small.in"])
    name: OfRun[Inside | None] = Field(None, examples=["case.in"])
    link: OfQueue[bool] = False
    fill: OfRun[bool] = False


def _input_kind(value: object) -> str:
    return "<input>" if isinstance(value, Mapping | InputKeys) else "<path>"


Input = Annotated[Annotated[Text, Tag("<path>")] | Annotated[InputKeys, Tag("<input>")], Discriminator(_input_kind)]


def _threshold_kind(value: object) -> str:
    return "<word>" if isinstance(value, str) else "<number>"


Threshold = Annotated[
    Annotated[Literal["unique_median", "median", "half_of_largest"], Tag("<word>")]
    | Annotated[int, Field(ge=0), Tag("<number>")],
    Discriminator(_threshold_kind),
]


class ProgramKeys(Keys):
    """The program that is measured: where it is, how it is built and run.

    Attributes
    ----------
    source
        Folder with the sources, relative to this file.
    build
        Shell command that builds the program in a copy of the sources. Placeholders: `{mpicc}`, `{mpicxx}`, `{mpifort}`
        (one of these is needed), `{cc}`, `{cxx}`, `{fc}`, `{flags}`; for sizes fixed at compile time also parameters,
        `values` and `{=expressions}`. `{{` and `}}` stand for braces.
    flags
        Compiler flags, inserted at `{flags}`.
    binary
        The program that the build makes, relative to the build folder.
    run
        Command that runs the program, without MPI launcher or shell. Placeholders: `{binary}` (needed), `{build}` (the
        build folder), `{ranks}`, `{threads}`, parameters, `values`, and integer expressions over these: `{=min(p, 2)}`.
    inputs
        Files and folders copied into the otherwise empty folder in which a run starts.
    start_in
        Subfolder in which a run starts; made unless `inputs` brings it.
    keep_output
        Patterns of output files, relative to where runs start, to keep in the run's folder `output` in the store.
    """

    source: OfTarget[Text] = Field(examples=["../examples/stencil"])
    build: OfTarget[Text] = Field(examples=["make MPICXX={mpicxx} CXXFLAGS='{flags}'"])
    flags: OfTarget[str] = "-O2"
    binary: OfTarget[Inside] = Field(examples=["stencil"])
    run: OfRun[Text] = Field(examples=["{binary} {n} 10", "{binary} -grid {px} {py} -steps {=max(1, 1000 // n)}"])
    inputs: OfRun[tuple[Input, ...]] = Field(
        (), examples=[["data/mesh.dat", {"path": "{build}/inputs", "name": "."}, {"path": "big.h5", "link": True}]]
    )
    start_in: OfRun[Inside] = Field(".", examples=["cases/small"])
    keep_output: OfQueue[tuple[Inside, ...]] = Field((), examples=[["*.log", "stats/**/*.csv"]])


class EnvironmentKeys(Keys):
    """A machine, and how MPI programs are started there.

    Attributes
    ----------
    launcher
        `openmpi`, `mpich`, `srun`, `none`; `auto`: that of the MPI found; or a template with `{command}`, `{ranks}`,
        `{threads}`, `{nodes}` and `{ranks_per_node}`.
    modules
        Environment modules for building and running.
    variables
        Environment variables for building and running.
    compiler
        `gcc`, `clang`, or the name or path of one. `auto`: as `compiler` at the top says.
    extra_flags
        Compiler flags after `program.flags`, at `{flags}`.
    """

    launcher: OfRun[Text] = Field("auto", examples=["auto", "srun", "mpiexec -n {ranks} {command}"])
    modules: OfTarget[tuple[Text, ...]] = Field((), examples=[["gcc/12", "openmpi"]])
    variables: OfTarget[dict[Text, Plain]] = Field(default_factory=dict, examples=[{"OMP_PROC_BIND": "close"}])
    compiler: OfTarget[Argument] = Field("auto", examples=["gcc-13"])
    extra_flags: OfTarget[str] = Field("", examples=["-march=native"])


class Range(Keys):
    """Values from `start` to `stop`, with `step` (linear) or `factor` (geometric).

    Attributes
    ----------
    start
        First value.
    stop
        Largest value, if the steps reach it exactly.
    step
        Difference between neighbours.
    factor
        Quotient of neighbours, above 1.
    """

    start: OfPlan[Number]
    stop: OfPlan[Number]
    step: OfPlan[Number | None] = None
    factor: OfPlan[Number | None] = None

    @model_validator(mode="after")
    def _has_values(self) -> Range:
        _ = self.listed
        return self

    @property
    def listed(self) -> tuple[Value, ...]:
        """The values, exactly as decimal arithmetic gives them; raises `ValueError` if there are none or too many."""
        start, stop = Decimal(repr(self.start)), Decimal(repr(self.stop))
        if (self.step is None) == (self.factor is None):
            raise ValueError("needs either step or factor")
        if self.factor is not None and self.factor <= 1:
            raise ValueError(f"needs a factor above 1, not {self.factor}")
        if stop < start:
            raise ValueError(f"is empty: it stops at {stop}, below its start {start}")
        out: list[Value] = []
        value = start
        while value <= stop:
            if len(out) == MOST_VALUES:
                raise ValueError(f"has more than {MOST_VALUES} values")
            out.append(canonical(float(value)))
            if self.factor is not None:
                value *= Decimal(repr(self.factor))
            else:
                value = start + len(out) * Decimal(repr(self.step))
        return tuple(out)


class ParameterKeys(Keys):
    """A quantity that is varied: with `values` or `range`, unless points are listed one by one; steps with `value`.

    Attributes
    ----------
    role
        `ranks`: MPI ranks; `threads`: threads per rank (at most one parameter each); `choice`: one of several words, or
        numbers without an order, such as a solver; `steps`: repetitions of the same work, so that short runs stand for
        the full number where counts prove it; `size`: anything else.
    values
        At least two different values; of a choice, words.
    range
        Values from `start` to `stop`, by `step` (linear) or `factor` (geometric).
    value
        Only with the role `steps`: the full number, for which predictions are made. The program also runs with about a
        twentieth and a fifth of it.
    """

    role: OfPlan[Literal["ranks", "threads", "size", "choice", "steps"]] = Field(examples=["size"])
    values: OfPlan[tuple[ParameterValue, ...] | None] = Field(None, examples=[[1, 2, 4, 8]])
    range: Range | None = Field(
        None, examples=[{"start": 8, "stop": 64, "factor": 2}, {"start": 10, "stop": 50, "step": 10}]
    )
    value: OfPlan[Annotated[int, Field(ge=FEWEST, le=1_000_000_000)] | None] = Field(None, examples=[600])


class BudgetKeys(Keys):
    """What the campaign may cost; with both keys the smaller one counts.

    Attributes
    ----------
    core_hours
        Core hours of all measurements together.
    percent_of_full_matrix
        Percentage of the cost of measuring every modelling point.
    charge
        What a run in a job is charged. `allocated`: all CPUs of the job, from its start. `program`: ranks times threads
        while the program runs.
    """

    @model_validator(mode="before")
    @classmethod
    def _spelled_out(cls, data: object) -> object:
        """Read `2h` as core hours, and `20%` as a share of the full matrix."""
        if not isinstance(data, str):
            return data
        key, value = budget_in(data)
        return {key: value}

    core_hours: OfPlan[Annotated[float, Field(gt=0)] | None] = None
    percent_of_full_matrix: OfPlan[Annotated[float, Field(gt=0, le=100)] | None] = None
    charge: OfPlan[Literal["allocated", "program"]] = "allocated"

    def in_force(self, full_matrix_core_hours: float | None) -> float | None:
        """Return the budget in core hours: the smaller one of the two that the file may give; None without any.

        Parameters
        ----------
        full_matrix_core_hours
            What measuring every modelling point would cost; if unknown, the percentage does not count.
        """
        limits = [] if self.core_hours is None else [self.core_hours]
        if self.percent_of_full_matrix is not None and full_matrix_core_hours is not None:
            limits.append(self.percent_of_full_matrix / 100.0 * full_matrix_core_hours)
        return min(limits, default=None)


class StrategyKeys(Keys):
    """The choice of points, iteration by iteration.

    Attributes
    ----------
    name
        `full`: every point. `lines`: all values along each parameter, and as many points off the lines as there are
        parameters. The others begin with lines. `design` (default with a budget, unless a parameter is a choice): the
        runs that narrow the interval at `target` most for their cost. `tensor`: where tensor models disagree most, for
        many parameters and choices. Published, for comparison: `cpf`: cheapest points first; `gpr`: Gaussian process
        regression; `hybrid`: `cpf`, then `gpr`; `bayes`, `ucb`: largest expected errors; `random`, `grid`. Packages may
        add more.
    max_iterations
        Limit of rounds of planning and measuring; by default 12. Most campaigns end earlier.
    batch
        Points of each round after the first; by default the strategy's choice. More points wait less in the queue,
        fewer are chosen better. Not for `full` and `lines`.
    base
        First points. `cheapest` (default of `design` and `tensor`): the five cheapest along each parameter, and for
        each parameter one point off these lines, where the others are large. `published` (default of the published
        strategies): the cheapest points off the lines. `lines`: none off the lines. Not for `full` and `lines`.
    base_repetitions
        Runs of each base point; by default 2, for `design` and `tensor` 1. `full` and `lines` take `repetitions`.
    most_repetitions
        Most runs of a point; by default 10. `full` and `lines` take `repetitions`.
    accuracy_percent
        Only `design`: stop when the 90 % intervals at `target` are within plus or minus this percentage for all call
        paths above 1 % of the run time.
    patience
        Only `cpf`, `gpr` and `hybrid`: stop after this many rounds without a better fit; by default at the budget.
    retry_failed
        Whether points with a failed run may be chosen again.
    """

    name: OfPlan[StrategyName] = "full"
    max_iterations: OfPlan[Annotated[int, Field(ge=1, le=100)] | None] = None
    batch: OfPlan[Annotated[int, Field(ge=1)] | None] = None
    base: OfPlan[Literal["cheapest", "lines", "published"] | None] = None
    base_repetitions: OfPlan[Annotated[int, Field(ge=1, le=10)] | None] = None
    most_repetitions: OfPlan[Annotated[int, Field(ge=1, le=1000)] | None] = None
    accuracy_percent: OfPlan[Annotated[float, Field(gt=0, le=100)] | None] = None
    patience: OfPlan[Annotated[int, Field(ge=1)] | None] = None
    retry_failed: OfPlan[bool] = False


class RefinementKeys(Keys):
    """Which functions stay instrumented: the filter is rebuilt from the models after each iteration.

    Attributes
    ----------
    enabled
        Whether filters are refined and measured again.
    strategy
        `relevance`: functions that grow to a share of the run time, within the allowed overhead. For comparison:
        `filter` and `filter-and-expand` of PIRA II, `hotspots` of PIRA I.
    start
        Initial instrumentation. `default`: the measurement system's choice; `everything`; others: functions that reach
        most of these in the call graph.
    start_threshold
        Smallest sufficient sum for `start`: upper median of the distinct sums, median, half of the largest, or a
        number.
    pilot
        Whether to begin with single runs at the smallest points, and to drop functions with many short visits. Default
        if `start` is not `default`, with strategy `design`, and with a budget in core hours without
        `resources.expected_time`.
    share
        Functions above this share of the run time at `target` stay instrumented.
    threshold
        PIRA II's strategies keep functions above this time at `target`; by default `share` of the whole.
    overhead_percent
        Allowed instrumentation overhead in percent, at `target` and over all points together; `null`: no limit.
    constants
        Whether functions of constant time stay instrumented, too.
    closure
        Which functions that lead to a kernel stay: those of measured call paths, or all on paths of the call graph.
    keep
        Patterns of functions that stay instrumented at any cost: signatures, qualified or bare names, or linker
        symbols.
    drop
        Patterns of functions not to instrument; `keep` wins.
    filtering
        `compile`: a build per filter. `run`: one build, whose filtered functions check a flag. `hybrid`: a build per
        `rebuild_every` filters.
    rebuild_every
        For `filtering: hybrid`.
    """

    enabled: OfPlan[bool] = True
    strategy: OfPlan[Literal["relevance", "filter", "filter-and-expand", "hotspots"]] = "relevance"
    start: OfPlan[Literal["default", "everything", "statements", "loops", "instructions", "branches"]] = "default"
    start_threshold: OfPlan[Threshold] = "unique_median"
    pilot: OfPlan[bool | None] = None
    share: OfPlan[Annotated[float, Field(gt=0, lt=1)]] = 0.01
    threshold: OfPlan[Seconds | None] = Field(None, examples=["0.5s"])
    overhead_percent: OfPlan[Annotated[float, Field(gt=0, le=10_000)] | None] = 5.0
    constants: OfPlan[bool] = False
    closure: OfPlan[Literal["measured", "static"]] = "measured"
    keep: OfPlan[tuple[Text, ...]] = Field((), examples=[["Calc*", "Domain::update", "grid_mod::smooth"]])
    drop: OfPlan[tuple[Text, ...]] = ()
    filtering: OfPlan[Literal["compile", "run", "hybrid"]] = "compile"
    rebuild_every: OfPlan[Annotated[int, Field(ge=2, le=100)]] = 2


class CommandKeys(Keys):
    """How a program measures itself, or is measured by another tool; uninstrumented runs go without all of this.

    Attributes
    ----------
    wrapper
        Measuring tool and its options, before the program in each rank. Runs start in a folder of their own, so files
        need no path.
    extra_flags
        Flags after `program.flags`, at `{flags}`.
    variables
        Environment variables of measured runs.
    afterwards
        Shell command, in the run's folder, that makes the profile; not timed. `$BURAN_BINARY` is the program,
        `$BURAN_RANKS` its number of ranks.
    profile
        Pattern of the profile, relative to where a run starts: any format that `buran convert` reads, or cubex. Without
        it, only whole runs are timed.
    format
        Format of the profile; by default detected.
    further_metrics
        Metrics of the profile to model in addition to `metrics`, by their names there.
    clock
        The program's own clock in place of the run's time: a regular expression with a group around seconds, which must
        match once on standard output.
    """

    wrapper: OfTarget[Text | None] = Field(None, examples=["tau_exec -T serial"])
    extra_flags: OfTarget[str] = Field("", examples=["-pg"])
    variables: OfTarget[dict[Text, Plain]] = Field(
        default_factory=dict, examples=[{"CALI_CONFIG": "hatchet-region-profile"}]
    )
    afterwards: OfTarget[Text | None] = None
    profile: OfTarget[Text | None] = Field(None, examples=["perf.csv", "*.cali"])
    format: OfTarget[Word | None] = Field(None, examples=["gprof"])
    further_metrics: OfTarget[tuple[Identifier, ...]] = Field((), examples=[["task_clock", "page_faults"]])
    clock: OfTarget[NumberPattern | None] = Field(None, examples=[r"solve: (\S+) s"])


class ModelKeys(Keys):
    """How models are made of what was measured.

    Attributes
    ----------
    priors
        `auto`: models of time take their terms from counts, unless these are missing, or `what_if` makes the machine
        depend on a parameter that is not a choice. `off`: from times alone.
    prior_fit
        `robust`: non-negative costs, down-weighted outliers, and costs shared by call paths. `published`: linear
        regression of each call path, as in the paper on noise-resilient priors.
    waiting
        Times of MPI and locks used by models. `auto`: from points with a core for each rank and thread. `always`: from
        all points.
    pool_filters
        `auto`: times under earlier filters and of counting runs are used where their correction is certain. `off`: only
        timed runs under the last filter.
    kind
        Model of the program's run time. `pmnf`: normal form. `cpr`: a tensor model, for many parameters. `auto`: `cpr`
        if a parameter is a choice, for more than four parameters from 20 points on, or where its cross-validated error
        is clearly smaller.
    criterion
        How hypotheses compete: `error`: error at omitted points plus a cost of complexity; `smape`: error at omitted
        points, as in Extra-P.
    space
        Terms in addition to the full space, for growth above cubic. For each parameter: a power and powers of its
        logarithm.
    terms_per_parameter
        Most factors of one parameter in a model; by default any number.
    repetition
        How repetitions of a point become one value. `min` suits machines that other work disturbs.
    """

    priors: OfAnalysis[Literal["auto", "off"]] = "auto"
    prior_fit: OfAnalysis[Literal["robust", "published"]] = "robust"
    waiting: OfAnalysis[Literal["auto", "always"]] = "auto"
    pool_filters: OfAnalysis[Literal["auto", "off"]] = "auto"
    kind: OfAnalysis[Literal["auto", "pmnf", "cpr"]] = "auto"
    criterion: OfAnalysis[Literal["error", "smape"]] = "error"
    space: OfAnalysis[dict[Text, Terms]] = Field(default_factory=dict, examples=[{"n": ["4 0 1", "7/2 0"]}])
    terms_per_parameter: OfAnalysis[Annotated[int, Field(ge=1, le=4)] | None] = None
    repetition: OfAnalysis[Literal["median", "mean", "min"]] = "median"


class PartitionKeys(Keys):
    """A partition: which points are measured in it, and what is said of it. Of an open key, what `resources` says.

    Attributes
    ----------
    ranks
        Numbers of ranks that it takes, as in `1-64`, or `65-` for 65 and more; by default all.
    cores_per_node
        Cores of a node that are used, at most; by default all.
    charge_factor
        What the site charges for a core hour.
    constraint
        As in `resources`.
    account
        As in `resources`.
    qos
        As in `resources`.
    exclusive
        As in `resources`.
    """

    ranks: OfRun[Annotated[str, Field(pattern=r"^[1-9][0-9]*(-([1-9][0-9]*)?)?$")] | None] = None
    cores_per_node: OfPlan[Annotated[int, Field(ge=1)] | None] = None
    charge_factor: OfPlan[Annotated[float, Field(gt=0, le=1000)]] = 1.0
    constraint: OfRun[Text | None] = None
    account: OfQueue[Word | None] = None
    qos: OfQueue[Word | None] = None
    exclusive: OfQueue[bool | None] = None

    def takes(self, ranks: int) -> bool:
        """Tell whether a point with so many ranks belongs here."""
        first, dash, last = (self.ranks or "1-").partition("-")
        return int(first) <= ranks and (ranks <= int(last or first) if last or not dash else True)


class ResourcesKeys(Keys):
    """What one run needs: numbers, or expressions over parameters.

    Attributes
    ----------
    ranks
        MPI ranks; by default the parameter with the role `ranks`.
    threads
        Threads per rank; by default the parameter with the role `threads`, else 1.
    nodes
        Nodes of a run. `auto`: as many as ranks and threads fill, by `tasks_per_node` or the cores of the partition's
        nodes; 1 without a partition.
    tasks_per_node
        Ranks per node; by default as many as fill the nodes evenly.
    time_limit
        Wall time after which a run is stopped and fails.
    expected_time
        Expected wall time of a run, to predict costs before the first measurement.
    memory_mb
        Memory of a job on each node, in MB; by default the partition's. Only with a profile that passes it to the
        scheduler.
    partition
        Partition to measure in. Runs in different partitions are kept apart. Only with a profile that passes it to the
        scheduler.
    partitions
        Partitions by name; each point is measured in the first that takes its ranks, or all of them in `partition`, if
        that is given. Only with a profile that hands it on.
    cluster
        Name of the cluster; elsewhere nothing is measured.
    constraint
        Features that nodes must have. Runs under different ones are kept apart. Only with a profile that passes it to
        the scheduler.
    account
        Account to charge. Only with a profile that passes it to the scheduler.
    qos
        Quality of service. Only with a profile that passes it to the scheduler.
    reservation
        Reservation to run in. Only with a profile that passes it to the scheduler.
    exclusive
        Whether jobs get whole nodes; otherwise other jobs disturb the timings. Only with a profile that passes it to
        the scheduler.
    extra
        Further options of the submit command. Only with a profile that passes it to the scheduler.
    time_margin
        A job's time limit is its predicted time multiplied by this. It doubles each time a job runs out of time, up to
        the sum of its runs' own limits.
    points_per_job
        Points with equal resources that may share a job, one after the other. `auto`: as many as take about ten
        minutes.
    """

    ranks: OfRun[Formula | None] = Field(None, examples=["p", "px * py", 1])
    threads: OfRun[Formula | None] = None
    nodes: OfRun[Formula] = Field("auto", examples=["ceil(p / 48)"])
    tasks_per_node: OfRun[Formula | None] = Field(None, examples=[48])
    time_limit: OfPlan[Duration] = Field(600, examples=["10min"])
    expected_time: OfPlan[Duration | None] = Field(None, examples=["1e-6 * n**3 / p"])
    memory_mb: OfQueue[Formula | None] = None
    partition: OfRun[Word | None] = None
    partitions: dict[Text, PartitionKeys] = Field(
        default_factory=dict, examples=[{"small": {"ranks": "1-64"}, "large": {"ranks": "65-", "charge_factor": 1.5}}]
    )
    cluster: OfQueue[Word | None] = None
    constraint: OfRun[Text | None] = None
    account: OfQueue[Word | None] = None
    qos: OfQueue[Word | None] = None
    reservation: OfQueue[Word | None] = None
    exclusive: OfQueue[bool] = True
    extra: OfQueue[JobOptions | None] = Field(None, examples=["--switches=1 --mail-type=FAIL"])
    time_margin: OfQueue[Annotated[float, Field(ge=1, le=100)]] = 3.0
    points_per_job: OfQueue[Annotated[int, Field(ge=1, le=10_000)] | Literal["auto"]] = 1
