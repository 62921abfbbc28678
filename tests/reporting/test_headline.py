"""What a report begins with, from made-up models: what exact counts prove leads, guesses are named so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from buran.modeling.pmnf.model_set import allowed_times
from buran.reporting.call_paths import predict_call_paths
from buran.reporting.headline import Evidence, rises_of
from buran.reporting.tables import names_of
from buran.reporting.text import first_screen, render
from made_up import answers, data_of, headline_about, model, models, told


def rises(said):
    return rises_of(said, predict_call_paths(said))


SEARCH = (1.0, -1, 4)
SETUP = (2e8 / 1024**2 * 1.22, 2, 0)  # a fifth of the counted work at the target


def test_growth_that_exact_counts_prove_comes_before_a_larger_guess():
    said = told(
        {"search": model((1e-9, -1, 4), smape=2), "setup": model((2e-7, 2, 0), smape=8),
         "MPI_Allreduce": model((0.01, 1, 0), smape=110)},
        {"search": model(SEARCH), "setup": model(SETUP)},
    )  # fmt: skip
    first, guess = [rise for rise in rises(said) if rise.parameter == "p"]
    assert (first.call_path, first.evidence, first.reason) == ("main->setup", Evidence.COUNTS, "grows with p^2")
    assert first.work[1] == pytest.approx(0.2, abs=0.01) and first.time[1] < first.work[1]
    assert (guess.call_path, guess.evidence) == ("main->MPI_Allreduce", Evidence.GUESS) and guess.gain > first.gain
    where = headline_about(said).scaling
    assert where.answer == "setup" and "a guess" in " ".join(where.facts).lower()
    screen = first_screen(said, answers(said, data_of(said, None)))
    assert screen.index("setup") < screen.index("MPI_Allreduce")


def test_what_stays_while_the_rest_falls_is_said_in_the_fields_words():
    said = told(
        {"forces": model((1e-3, -1, 2), smape=1), "energy": model((1e-4, 0, 2), smape=1)},
        {"forces": model((10, -1, 2), (30, 0, 0)), "energy": model((0.5, 0, 2))},
    )
    first = rises(said)[0]
    assert first.call_path == "main->energy" and all(part in first.reason for part in ("constant in p", "as 1/p"))
    assert first.work == pytest.approx((0.5 / 10.5, 0.5 / (0.5 + 10 / 1024)), rel=1e-3)


def test_a_guess_alone_is_no_answer_and_named_so_in_the_same_sentence():
    said = told({"work": model((1.0, 0, 0), smape=1), "MPI_Wait": model((0.318, 0, 0), (-0.318, -1, 0), smape=60)})
    (rise,) = rises(said)
    assert rise.evidence is Evidence.GUESS and "up to a bound" in rise.reason
    answer = headline_about(said).scaling.answer
    assert answer.startswith("Nothing") and "a guess: " in answer and "MPI_Wait" in answer
    assert "does not grow" not in render(said, answers(said, data_of(said, None)))


def test_without_times_the_models_are_of_counts():
    """As of miniFE, whose elements in halos are computed twice."""
    counts = models("basic_blocks", "occ", rest=model((1e6, -1, 0)), elements=model((5e4, -1 / 2, 0), smape=2))
    said = told({}, models={"basic_blocks": counts})
    where = headline_about(said).scaling
    assert where.answer == "elements" and "basic_blocks" in where.facts[0]


def test_nothing_rises():
    said = told({"work": model((1.0, 0, 1), smape=1), "halo": model((0.2, 0, 1), smape=1)})
    where = headline_about(said).scaling
    assert not rises(said) and where.answer == "Nothing up to p=1024"
    assert not any("trusted" in fact for fact in where.facts)


def test_one_function_that_grows_with_the_ranks_has_no_share_to_gain_but_stops_the_program():
    said = told({"work": model((1e-3, 1, 0), smape=1)})
    assert headline_about(said).scaling.answer == "work" and rises(said)[0].reason == "grows with p"


def test_a_rise_along_a_size_is_no_loss_of_scaling():
    blocks = {"sort": model((5.0, 0, 1)), "search": model((0.01, 0, 3))}
    said = told({"sort": model((1e-3, 0, 1), smape=1), "search": model((1e-6, 0, 3), smape=1)}, blocks)
    assert {rise.parameter for rise in rises(said)} == {"n"}
    where = headline_about(said).scaling
    assert where.answer == "Nothing up to p=1024"
    assert any("search" in fact and "No loss" in fact and "n^3" in fact for fact in where.facts)
    alone = replace(said, parallel=())
    assert headline_about(alone).scaling.answer == "search"


def test_head_summary_text_and_json_name_the_same_rises():
    said = told({"work": model((1.0, 0, 0), smape=1), "wait": model((0.01, 1, 0), smape=1)})
    (rise,) = headline_about(said).rises
    lines = render(said, answers(said, data_of(said, None)))
    assert rise.call_path == "main->wait" and "wait" in lines.splitlines()[3]


def test_an_absurd_total_is_not_known_and_what_would_tell_is_said():
    times = {"work": model((1e-3, 0, 1), smape=1), "MPI_Waitall": model((1e-6, 3, 1), smape=40)}
    blocks = {"work": model((5.0, 0, 1))}
    runtime = replace(
        models("runtime", "sec", whole=model((1e-3, 0, 1), (1e-6, 3, 1), smape=10)), call_paths=("whole program",)
    )
    said = told(times, blocks, runtime=runtime)
    assert said.unknown.call_paths == ("main->MPI_Waitall",) and said.unknown.total
    assert "p=32 and p=64" in said.unknown.advice
    data = data_of(said, None)
    sure = next(each for each in answers(said, data) if each.question == "How long will it take, and how sure is that?")
    assert sure.answer == "Not known"
    waits, work = sorted(data["paths"], key=lambda path: path["name"])
    assert waits["at"] is waits["share"] is waits["low"] is None and work["share"] == 1.0
    assert data["runtime"]["at"] == data["runtime"]["curves"] == []
    text = render(said, answers(said, data))
    absurd = float(runtime.predict(np.array([[1024.0, 1000.0]]))[0, 0])
    assert f"{absurd:.4g}" not in text and "not known" in text
    assert "MPI_Waitall" in headline_about(said).scaling.answer


@pytest.mark.parametrize(("power", "beyond"), [(1, False), (2, True)])
def test_a_time_may_grow_as_its_counts_do(power, beyond):
    times = models("time", "sec", work=model((1e-3, power, 0), smape=1), other=model((1.0, 0, 0), smape=1))
    counts = models("basic_blocks", "occ", work=model((3.0, 1, 0)), other=model((3.0, 0, 0)))
    target = np.array([1024.0, 100.0])
    allowed = allowed_times(times, {"basic_blocks": counts}, target)
    predicted = times.predict(target[None])[:, 0]
    assert (predicted > 10 * allowed).tolist() == [beyond, False]
    assert np.isinf(allowed_times(times, {}, target)).all()


def test_counts_of_callees_without_times_belong_to_their_caller():
    times = models("time", "sec", solve=model((1e-3, 2, 0), smape=1))
    counts = models("basic_blocks", "occ", solve=model((3.0, 0, 0)), inner=model((1.0, 2, 0)))
    counts = replace(counts, call_paths=("main->solve", "main->solve->inner"))
    allowed = allowed_times(times, {"basic_blocks": counts}, np.array([1024.0, 100.0]))
    assert allowed[0] > times.predict(np.array([[1024.0, 100.0]]))[0, 0] / 10


def test_call_paths_of_one_name_begin_at_the_callers_that_distinguish_them():
    paths = ["main->step->exchange->MPI_Wait", "main->setup->exchange->MPI_Wait", "main->step->kernel"]
    names = names_of(paths)
    assert [names[path].split(" → ")[0] for path in paths] == ["step", "setup", "kernel"]
    assert names[paths[0]].endswith("exchange → MPI_Wait")
    assert set(names_of(["main->MPI_Init"]).values()) == {"main → MPI_Init"}
