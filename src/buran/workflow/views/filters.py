"""Lists of functions outside of a running campaign: made from what was measured or by a query, and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from buran.campaign.layout import FINDINGS, MODELS, campaign_file
from buran.campaign.mistakes import listed
from buran.errors import FormatError, UsageError, check_coordinates
from buran.instrumentation.callgraph import CallGraph
from buran.instrumentation.filter_file import Filter, Rule, read_filter
from buran.instrumentation.filter_list import WRITERS, FilterList, list_of, unknown
from buran.instrumentation.graph_sources import GRAPH_FORMATS, graph_of_features, graph_of_tree, with_measured
from buran.instrumentation.measured import extremes_s, imbalance_s, threads_of
from buran.instrumentation.pattern import named_by
from buran.instrumentation.prediction import VISIT_COST_S, ModelledProgram
from buran.instrumentation.refine import Explored, refine
from buran.instrumentation.refinement import Wishes
from buran.instrumentation.selection import select
from buran.measurement.toolchain.static_features import StaticFeatures
from buran.modeling.experiments import model_experiment
from buran.modeling.pmnf.model_set import read_models
from buran.profiles.experiment import TABLE
from buran.profiles.experiment.read import read_experiment
from buran.profiles.experiment.table import Experiment
from buran.profiles.metrics import work_metrics
from buran.profiles.profile import CallTree
from buran.wording import Category
from buran.workflow.filter_list import current_list, recommended_filter
from buran.workflow.findings import Findings
from buran.workflow.history import History
from buran.workflow.refine import static_features
from buran.workflow.session import Session, open_session
from buran.workflow.views.changes import as_measured


@dataclass(frozen=True)
class Request:
    """What the user wants of a list, by options of `buran filter`: overhead in percent, a visit's cost in seconds."""

    target: Mapping[str, float] | None = None
    share: float = 0.01
    overhead: float = 5.0
    visit_cost: float | None = None
    constants: bool = False
    select: str | None = None
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Universe:
    """The functions that lists are about.

    Attributes
    ----------
    history
        History of a campaign.
    experiment
        Measurements from elsewhere.
    callgraph
        A call graph that was given.
    remarks
        What to know of the campaign's measurements, in sentences.
    results
        Folder of a campaign's results, where the measurements are its table: its models then are those of the list.
    """

    history: History | None
    experiment: Experiment | None
    callgraph: CallGraph | None
    remarks: tuple[str, ...] = ()
    results: Path | None = None

    @classmethod
    def open(cls, campaign: Path | None, experiment: Path | None = None, callgraph: Path | None = None) -> Universe:
        """Read what was given.

        Raises
        ------
        UsageError
            A file cannot be read.
        """
        session: Session | None = None
        remarks: tuple[str, ...] = ()
        if campaign is not None:
            session, remarks = as_measured(open_session(campaign_file(campaign), to_read=True))
            remarks = (*session.remarks, *remarks)
        return cls(
            None if session is None else History.open(session),
            None if experiment is None else read_experiment(experiment),
            None if callgraph is None else read_callgraph(callgraph),
            remarks,
            None if experiment is None or not _is_table_of_results(experiment) else experiment.parent,
        )

    @cached_property
    def graph(self) -> CallGraph | None:
        """The call graph: given, or of the campaign's newest build; with the calls that were measured."""
        graph, tree = self.callgraph, self.tree
        if graph is None and self.history is not None:
            features = static_features(self.history, self.findings.iteration)
            graph = None if features is None else graph_of_features(features)
        if tree is None:
            return graph
        return graph_of_tree(tree) if graph is None else with_measured(graph, tree)

    @cached_property
    def findings(self) -> Findings:
        """Findings of the campaign's last iteration that measured anything."""
        assert self.history is not None
        findings = next(self.history.newest_findings, None)
        if findings is None:
            raise UsageError(
                "the campaign has measured nothing yet",
                where=self.history.layout.root,
                hint=f"buran run {self.history.session.campaign.path}",
            )
        return findings

    @property
    def tree(self) -> CallTree | None:
        """Measured call paths."""
        if self.results is not None:
            return self.results_findings.tree
        if self.experiment is not None:
            return self.experiment.tree
        return None if self.history is None else self.findings.tree

    @cached_property
    def results_findings(self) -> Findings:
        """Those in addition to the measurements."""
        assert self.results is not None
        return Findings.read(self.results / FINDINGS)

    @property
    def needed(self) -> CallGraph:
        """The call graph, which must be known."""
        if self.graph is None:
            raise UsageError("no functions are known", hint="name a campaign, or --callgraph CG")
        return self.graph


def read_callgraph(path: Path) -> CallGraph:
    """Read a call graph of a build of a campaign, or in one of the formats of call graphs.

    Raises
    ------
    FormatError
        It is neither.
    """
    try:
        first = path.read_text(encoding="utf-8", errors="replace").split("\n", 1)[0]
    except OSError as error:
        raise FormatError("the call graph cannot be read", where=path, why=error.strerror) from error
    if '"unmatched_lines"' in first:
        return graph_of_features(StaticFeatures.from_jsonl(path.read_text(encoding="utf-8"), path))
    for each in GRAPH_FORMATS:
        if each.recognises(path):
            return each.read(path)
    formats = ", ".join(("static.jsonl of a build in the store", *GRAPH_FORMATS.names))
    raise FormatError("this is no call graph", where=path, why=f"known are: {formats}")


# -- making lists -------------------------------------------------------------------------------------


def make(universe: Universe, request: Request, format: str) -> str:
    """Return a list in one of the formats of `WRITERS`.

    Raises
    ------
    UsageError
        No filter was decided yet, a query has a mistake, or the target is none.
    """
    _refuse_unheeded(universe, request)
    if universe.history is not None and request == Request() and format == "scorep":
        text = recommended_filter(universe.history)
        if text:
            return text
    found = _list(universe, request)
    return WRITERS[format](replace(found, functions=dict(sorted(found.functions.items()))))


def _refuse_unheeded(universe: Universe, request: Request) -> None:
    """Raise what is wrong with options that choose functions by models of measurements."""
    options = [each for each in fields(request) if each.name != "select"]
    given = [f"--{each.name.replace('_', '-')}" for each in options if getattr(request, each.name) != each.default]
    if universe.history is not None and request.target == dict(universe.history.session.campaign.target):
        given.remove("--target")
    if given and (universe.experiment is None or request.select):
        raise UsageError(
            f"{listed(given)} would change nothing",
            why="only a list that is made of measurements heeds it",
            hint="buran filter --from results/NAME/latest/experiment.jsonl; "
            "or the keys `target` and `refinement` of the campaign file, then buran run",
        )
    bounds = {
        "--share lies between 0 and 1": not 0 <= request.share <= 1,
        "--overhead is 0 % or more": not 0 <= request.overhead < np.inf,
        "--visit-cost is 0 ns or more": not 0 <= (request.visit_cost or 0.0) < np.inf,
    }
    for rule, broken in bounds.items():
        if broken:
            raise UsageError(rule)


def _list(universe: Universe, request: Request) -> FilterList:
    if request.select is not None:
        graph = universe.needed
        chosen = np.flatnonzero(select(graph, request.select) & graph.has_body)
        return FilterList(
            {graph.symbols[i]: unknown(graph.names[i]) for i in chosen.tolist()}, (f"selected: {request.select}",)
        )
    if universe.experiment is not None:
        return _modelled(universe, universe.experiment, request)
    assert universe.history is not None
    _ = universe.findings  # a campaign that has measured nothing says so
    current = current_list(universe.history)
    if current is None:
        raise UsageError("the campaign has no models of times and visits", where=universe.history.session.campaign.path)
    return current.functions


def _modelled(universe: Universe, experiment: Experiment, request: Request) -> FilterList:
    missing = [name for name in ("time", "visits") if name not in experiment.values]
    if "time" in missing or not len(experiment.tree):
        raise UsageError("the measurements have no times of call paths", hint="profile with Score-P or Buran first")
    used = {"time", "visits", *work_metrics(experiment.metrics)}
    if universe.results is None:
        sets = model_experiment(experiment, [name for name in experiment.metrics if name in used])
        tree, imbalance, extremes = experiment.tree, imbalance_s(experiment), extremes_s(experiment)
        threads = threads_of(experiment)
    else:
        sets = {models.metric: models for models in read_models(universe.results / MODELS)}
        found = universe.results_findings
        tree, imbalance, extremes = found.tree, np.array(found.imbalance_s), np.array(found.extremes_s).reshape(-1, 2)
        threads = np.array(found.threads) if found.threads else None
    _check_patterns(universe, request)
    wishes = Wishes(
        share=request.share,
        overhead=request.overhead / 100,
        constants=request.constants,
        keep=request.keep,
        drop=request.drop,
    )
    program = ModelledProgram(
        tree,
        sets["time"],
        sets.get("visits"),
        visit_cost_s=VISIT_COST_S if request.visit_cost is None else request.visit_cost,
        work=[sets[name] for name in work_metrics(sets)],
        imbalance=imbalance,
        extremes_s=extremes,
        threads=threads,
    )
    return list_of(refine(program, _target(request.target, experiment), wishes, Explored(universe.graph)))


def _is_table_of_results(path: Path) -> bool:
    """Tell whether measurements are the table of a campaign with models of times and visits next to it."""
    if path.name != TABLE or not all((path.parent / name).is_file() for name in (FINDINGS, MODELS)):
        return False
    return {"time", "visits"} <= {models.metric for models in read_models(path.parent / MODELS)}


def _target(values: Mapping[str, float] | None, experiment: Experiment) -> np.ndarray:
    if values is None:
        return np.asarray(experiment.points.max(axis=0))
    check_coordinates(values, experiment.parameters, "--target")
    for name, column in zip(experiment.parameters, experiment.points.T, strict=True):
        if isinstance(values[name], Category) and values[name] not in column:
            why = f"{name} is a number" if len(set(column)) > 1 else f"{name} was something else in all runs"
            raise UsageError(f"{name}={values[name]} is no point of the measurements", where="--target", why=why)
    return np.array([values[name] for name in experiment.parameters])


def _check_patterns(universe: Universe, request: Request) -> None:
    """Raise the error of a pattern that names no function."""
    functions = [(name, symbol) for symbol, name, _ in _functions(universe)]
    for option, patterns in (("--keep", request.keep), ("--drop", request.drop)):
        for pattern, numbers in zip(patterns, named_by(patterns, functions), strict=True):
            if not numbers:
                raise UsageError(
                    f"the pattern {pattern!r} names no function",
                    where=option,
                    why="it is compared with signatures, qualified and bare names, and linker symbols",
                    hint="buran filter --format plain, or nm on the program, list the symbols",
                )


def _functions(universe: Universe) -> list[tuple[str, str, str]]:
    """Return (symbol, name, file) of the functions with a body."""
    graph = universe.needed
    names = zip(graph.symbols, graph.names, graph.functions, strict=True)
    return [(symbol, name, each.file) for symbol, name, each in names if each.has_body]


# -- checking ---------------------------------------------------------------------------


def check(path: Path, universe: Universe) -> tuple[str, bool]:
    """Parse a filter and match it with the functions; return what is to be said, and whether all is well.

    Raises
    ------
    FormatError
        It has a syntax error, with file and line.
    """
    rules = read_filter(path)
    lines = [f"{path}: {len(rules.files) + len(rules.regions)} rules, no syntax error"]
    unmatched: Sequence[Rule] = ()
    if universe.graph is not None:
        every = _functions(universe)
        unmatched = rules.unmatched(every)
        inside = sum(rules.matches(name, symbol, file) for symbol, name, file in every)
        lines.append(f"lets {inside} of {len(every)} functions through")
        lines += [f"line {rule.line}: {rule.pattern!r} matches no function" for rule in unmatched]
        skipped = _skipped_inline(rules, universe.graph)
        if skipped:
            examples = ", ".join(skipped[:5]) + (", ..." if len(skipped) > 5 else "")
            lines.append(
                f"{len(skipped)} functions declared inline are let through by no rule of their own; Score-P's GCC "
                f"plugin skips them: {examples}"
            )
    return "".join(f"{line}\n" for line in lines), not unmatched


def _skipped_inline(rules: Filter, graph: CallGraph) -> list[str]:
    """Return functions declared inline that only the default, or the pattern ``*``, includes."""
    inline = (each for each in graph.functions if each.inline and each.has_body)
    functions = ((each.name or each.symbol, each.symbol, each.file) for each in inline)
    return [names[1] for names in functions if rules.matches(*names) and not rules.gives_hooks(*names, inline=True)]
