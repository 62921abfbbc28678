"""Lists of functions outside of a running campaign: made from what was measured, checked, compared, combined."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from buran.campaign.mistakes import listed
from buran.campaign.results import FINDINGS, MODELS, campaign_file
from buran.errors import FormatError, UsageError, check_coordinates
from buran.instrumentation.aggregation import CUTS, Cut, Size, initial_selection
from buran.instrumentation.callgraph import CallGraph, make_graph
from buran.instrumentation.filter_file import Filter, Rule, read_filter
from buran.instrumentation.filter_list import WRITERS, FilterList, list_of, unknown
from buran.instrumentation.graph_formats import GRAPH_FORMATS
from buran.instrumentation.graph_sources import graph_of_features, graph_of_tree, with_measured
from buran.instrumentation.measured import extremes_s, imbalance_s, threads_of
from buran.instrumentation.pattern import named_by, plain
from buran.instrumentation.prediction import ModelledProgram
from buran.instrumentation.refine import Explored, refine
from buran.instrumentation.refinement import KEPT, Wishes
from buran.instrumentation.selection import select
from buran.instrumentation.tuning import VISIT_COST_S
from buran.measurement.toolchain.static_features import StaticFeatures
from buran.modeling.experiments import model_experiment
from buran.modeling.pmnf.model_set import read_models
from buran.profiles.experiment import TABLE
from buran.profiles.experiment.read import read_experiment
from buran.profiles.experiment.table import Experiment
from buran.profiles.metrics import work_metrics
from buran.profiles.names import spellings
from buran.profiles.profile import CallTree
from buran.wording import Category, counted
from buran.workflow.filter_list import current_list, recommended_filter
from buran.workflow.findings import Findings
from buran.workflow.history import History
from buran.workflow.refine import static_features
from buran.workflow.session import Session, open_session
from buran.workflow.views.changes import as_measured


@dataclass(frozen=True)
class Request:
    """What the user wants of a list; see ``buran filter --help``."""

    target: Mapping[str, float] | None = None
    share: float = 0.01
    overhead_percent: float = 5.0
    visit_cost_s: float | None = None
    constants: bool = False
    select: str | None = None
    initial: Size | None = None
    cut: str = "unique_median"
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    union: tuple[Path, ...] = ()
    minus: tuple[Path, ...] = ()
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
        A call graph that was given, or a bare list of functions.
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
    def open(
        cls, campaign: Path | None, experiment: Path | None, callgraph: Path | None, functions: Path | None
    ) -> Universe:
        """Read what was given.

        Raises
        ------
        UsageError
            A file cannot be read.
        """
        given_graph = None if callgraph is None else read_callgraph(callgraph)
        if functions is not None:
            given_graph = make_graph(_lines(functions), ())
        session: Session | None = None
        remarks: tuple[str, ...] = ()
        if campaign is not None:
            session, remarks = as_measured(open_session(campaign_file(campaign), to_read=True))
            remarks = (*session.remarks, *remarks)
        return cls(
            None if session is None else History.open(session),
            None if experiment is None else read_experiment(experiment),
            given_graph,
            remarks,
            None if experiment is None or not _is_table_of_results(experiment) else experiment.parent,
        )

    @cached_property
    def graph(self) -> CallGraph | None:
        """The call graph: given, or of the campaign's newest build; with the calls that were measured."""
        graph, tree = self.callgraph, self.tree
        if graph is None and self.history is not None:
            features = static_features(self.history, self.last_iteration)
            graph = None if features is None else graph_of_features(features)
        if tree is None:
            return graph
        return graph_of_tree(tree) if graph is None else with_measured(graph, tree)

    @property
    def last_iteration(self) -> int:
        """Number of the last iteration of the campaign that measured anything."""
        return self.findings.iteration

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
            raise UsageError("no functions are known", hint="name a campaign, --callgraph CG or --functions FILE")
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


def _lines(path: Path) -> list[str]:
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError("the list of functions cannot be read", where=path, why=str(error)) from error
    return list(dict.fromkeys(line for line in lines if line and not line.startswith("#")))


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
    filter_list = _combined(universe, request, _base(universe, request))
    return WRITERS[format](filter_list)


_OF_MEASUREMENTS = {
    "target": "--target",
    "share": "--share",
    "overhead_percent": "--overhead",
    "visit_cost_s": "--visit-cost",
    "constants": "--constants",
}
"""Options that choose functions by models, by what they set."""


def _refuse_unheeded(universe: Universe, request: Request) -> None:
    """Raise what is wrong with options that choose functions by models of measurements."""
    given = [option for key, option in _OF_MEASUREMENTS.items() if getattr(request, key) != getattr(Request(), key)]
    if universe.history is not None and request.target == dict(universe.history.session.campaign.target):
        given.remove("--target")
    if given and (universe.experiment is None or request.select or request.initial):
        raise UsageError(
            f"{listed(given)} would change nothing",
            why="only a list that is made of measurements heeds it",
            hint="buran filter --from results/NAME/latest/experiment.jsonl; "
            "or the keys `target` and `refinement` of the campaign file, then buran run",
        )
    bounds = {
        "--share lies between 0 and 1": not 0 <= request.share <= 1,
        "--overhead is 0 % or more": not 0 <= request.overhead_percent < np.inf,
        "--visit-cost is 0 ns or more": not 0 <= (request.visit_cost_s or 0.0) < np.inf,
    }
    for rule, broken in bounds.items():
        if broken:
            raise UsageError(rule)


def _base(universe: Universe, request: Request) -> FilterList:
    if request.select is not None:
        graph = universe.needed
        chosen = np.flatnonzero(select(graph, request.select) & graph.has_body)
        return FilterList(
            {graph.symbols[i]: unknown(graph.names[i]) for i in chosen.tolist()}, (f"selected: {request.select}",)
        )
    if request.initial is not None:
        graph = universe.needed
        chosen = np.flatnonzero(initial_selection(graph, request.initial, _cut(request.cut)) & graph.has_body)
        return FilterList(
            {graph.symbols[i]: unknown(graph.names[i]) for i in chosen.tolist()},
            (f"functions that reach most {request.initial}, cut at {request.cut}",),
        )
    if universe.experiment is not None:
        return _modelled(universe, universe.experiment, request)
    assert universe.history is not None
    _ = universe.findings  # a campaign that has measured nothing says so
    current = current_list(universe.history)
    if current is None:
        raise UsageError("the campaign has no models of times and visits", where=universe.history.session.campaign.path)
    return current.functions


def _cut(text: str) -> Cut | int:
    for kind in CUTS:
        if text == kind:
            return kind
    if text.isdecimal():
        return int(text)
    raise UsageError("the cut cannot be read", where=text, why=f"one of {', '.join(CUTS)}, or a whole number")


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
        findings = universe.results_findings
        tree, imbalance, extremes = (
            findings.tree,
            np.array(findings.imbalance_s),
            np.array(findings.extremes_s).reshape(-1, 2),
        )
        threads = np.array(findings.threads) if findings.threads else None
    wishes = Wishes(
        share=request.share,
        overhead=request.overhead_percent / 100,
        constants=request.constants,
        keep=request.keep,
        drop=request.drop,
    )
    program = ModelledProgram(
        tree,
        sets["time"],
        sets.get("visits"),
        visit_cost_s=VISIT_COST_S if request.visit_cost_s is None else request.visit_cost_s,
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


def _combined(universe: Universe, request: Request, base: FilterList) -> FilterList:
    """Apply the user's queries and lists, in the order: add, union, remove, minus, drop, keep."""
    functions = dict(base.functions)

    def add(symbols: Sequence[str], why: str) -> None:
        names = {} if universe.graph is None else dict(zip(universe.graph.symbols, universe.graph.names, strict=True))
        for symbol in symbols:
            functions.setdefault(symbol, unknown(names.get(symbol, symbol), why))

    def chosen(query: str) -> list[str]:
        graph = universe.needed
        return [graph.symbols[i] for i in np.flatnonzero(select(graph, query) & graph.has_body).tolist()]

    for query in request.add:
        add(chosen(query), f"requested: {query}")
    for path in request.union:
        add(sorted(_let_through(path, universe)), f"in {path.name}")
    for query in request.remove:
        for symbol in chosen(query):
            functions.pop(symbol, None)
    for path in request.minus:
        for symbol in _let_through(path, universe):
            functions.pop(symbol, None)
    every = [] if universe.graph is None else _functions(universe)
    shown = [(function.name, symbol) for symbol, function in functions.items()]
    for pattern, numbers in zip(request.drop, named_by(request.drop, shown), strict=True):
        if not numbers and not any(named_by([pattern], [(name, symbol) for symbol, name, _ in every])):
            raise no_function(pattern, "--drop")
        for number in numbers:
            functions.pop(shown[number][1], None)
    known = [(name, symbol) for symbol, name, _ in every] or shown
    for pattern, numbers in zip(request.keep, named_by(request.keep, known), strict=True):
        if not numbers:
            raise no_function(pattern, "--keep")
        add([known[number][1] for number in sorted(numbers)], KEPT)
    return replace(base, functions=dict(sorted(functions.items())))


def no_function(pattern: str, where: str) -> UsageError:
    """Return the error of a pattern that names nothing."""
    return UsageError(
        f"the pattern {pattern!r} names no function",
        where=where,
        why="it is compared with signatures, qualified and bare names, and linker symbols",
        hint="buran filter --format plain, or nm on the program, list the symbols",
    )


def _functions(universe: Universe) -> list[tuple[str, str, str]]:
    """Return (symbol, name, file) of the functions with a body."""
    graph = universe.needed
    return [(graph.symbols[i], graph.names[i], graph.files[i]) for i in np.flatnonzero(graph.has_body).tolist()]


def _let_through(path: Path, universe: Universe) -> set[str]:
    rules = read_filter(path)
    return {symbol for symbol, name, file in _functions(universe) if rules.matches(name, symbol, file)}


# -- checking and comparing ---------------------------------------------------------------------------


def check(path: Path, universe: Universe, *, as_json: bool = False) -> tuple[str, bool]:
    """Parse a filter and match it with the functions; return what is to be said, and whether all is well.

    Raises
    ------
    FormatError
        It has a syntax error, with file and line.
    """
    rules = read_filter(path)
    facts: dict[str, object] = {"rules": len(rules.files) + len(rules.regions)}
    lines = [f"{path}: {facts['rules']} rules, no syntax error"]
    fine = True
    if universe.graph is not None:
        graph = universe.graph
        every = _functions(universe)
        inside = [function for function in every if rules.matches(function[1], function[0], function[2])]
        unmatched = rules.unmatched(every)
        fine = not unmatched
        lines.append(f"lets {len(inside)} of {len(every)} functions through")
        elsewhere = _of_other_compilers(unmatched, every)
        lines += [
            f"line {rule.line}: {rule.pattern!r} matches no function{elsewhere.get(rule.pattern, '')}"
            for rule in unmatched
        ]
        skipped = _skipped_inline(rules, graph)
        if skipped:
            examples = ", ".join(skipped[:5]) + (", ..." if len(skipped) > 5 else "")
            lines.append(
                f"{len(skipped)} functions declared inline are let through by no rule of their own; Score-P's GCC "
                f"plugin skips them: {examples}"
            )
        facts |= {
            "functions": len(every),
            "included": [symbol for symbol, _, _ in inside],
            "unmatched": [{"line": rule.line, "pattern": rule.pattern} for rule in unmatched],
            "skipped_inline": skipped,
        }
    return (json.dumps(facts, indent=2) + "\n" if as_json else "".join(f"{line}\n" for line in lines)), fine


def _of_other_compilers(rules: Sequence[Rule], functions: Sequence[tuple[str, str, str]]) -> dict[str, str]:
    """Return, for patterns that are another compiler's symbols of known functions, what these are called here."""
    exact = [(rule.pattern, name) for rule in rules if rule.mangled and (name := plain(rule.pattern)) is not None]
    names = [spelt[1] if len(spelt := spellings(name, name)) > 1 else "" for _, name in exact]
    found = named_by(names, [(name, symbol) for symbol, name, _ in functions])
    return {
        pattern: f": it is another compiler's symbol of {functions[min(numbers)][0]}"
        for (pattern, _), numbers, name in zip(exact, found, names, strict=True)
        if name and numbers
    }


def _skipped_inline(rules: Filter, graph: CallGraph) -> list[str]:
    """Return functions declared inline that only the default, or the pattern ``*``, includes."""
    functions = (
        (graph.names[i], graph.symbols[i], graph.files[i]) for i in np.flatnonzero(graph.inline & graph.has_body)
    )
    return [names[1] for names in functions if rules.matches(*names) and not rules.gives_hooks(*names, inline=True)]


def difference(one: Path, other: Path, universe: Universe, *, as_json: bool = False) -> tuple[str, bool]:
    """Compare two filters: over the known functions, or over the functions they name; and whether they are equal."""
    first, second = read_filter(one), read_filter(other)
    if universe.graph is None:
        named = sorted({name for rules in (first, second) for name in rules.named})
        functions = [(name, name, "") for name in named]
    else:
        functions = _functions(universe)
    a, b = (
        {symbol for symbol, name, file in functions if rules.matches(name, symbol, file)} for rules in (first, second)
    )
    if as_json:
        text = json.dumps({"only_first": sorted(a - b), "only_second": sorted(b - a), "both": len(a & b)}, indent=2)
        return f"{text}\n", a == b
    lines = [f"- {symbol}" for symbol in sorted(a - b)] + [f"+ {symbol}" for symbol in sorted(b - a)]
    lines.append(f"{counted(len(a & b), 'function')} in both, {len(a - b)} only in {one}, {len(b - a)} only in {other}")
    return "".join(f"{line}\n" for line in lines), a == b
