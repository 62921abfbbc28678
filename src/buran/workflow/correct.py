"""Correcting the analytical models that a campaign names, by its measurements."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from buran.campaign.config import Campaign
from buran.campaign.document import below
from buran.campaign.mistakes import CampaignError, Mistake
from buran.errors import UsageError
from buran.files import finite_or_none
from buran.modeling.experiments import one_call_path, row_of
from buran.modeling.pmnf import read_models
from buran.modeling.pmnf.text import python_names
from buran.profiles.experiment.read import read_experiment
from buran.reporting.content import CorrectedKernel

if TYPE_CHECKING:
    from buran.modeling.correction import BaseModel

OWN = "model"
"""Stands for the campaign's own model of a kernel: noise-resilient where it has a prior, else in normal form."""


def check_base_models(campaign: Campaign) -> None:
    """Read the base models that a campaign names.

    Raises
    ------
    CampaignError
        If one is wrong, or has variables that are no parameters of the campaign.
    """
    if not campaign.config.correct:
        return
    from buran.modeling.correction import load_base

    for kernel, model in campaign.config.correct.items():
        if model == OWN:
            continue
        key = ("correct", kernel)
        try:
            base = load_base(_model_path(campaign, model))
        except UsageError as error:
            why = "\n".join(filter(None, (error.what, error.where, error.why)))
            mistake = Mistake(key, "a base model cannot be used", why, error.hint, campaign.path)
            raise CampaignError([mistake]) from error
        strange = [name for name in base.variables if name not in campaign.parameters]
        if strange:
            what = f"the base model has the variable {strange[0]!r}, which is no parameter of the campaign"
            why = f"the parameters are {', '.join(campaign.parameters)}"
            hint = "use the parameters' names in the base model; `let` makes others of them"
            raise CampaignError([Mistake(key, what, why, hint, campaign.path)])


def correct_kernels(campaign: Campaign, folder: Path) -> tuple[CorrectedKernel, ...]:
    """Correct the models of named kernels by the table in a folder of results; write them below it.

    Returns
    -------
    tuple
        For each kernel what the report says; one that cannot be corrected has the reason.
    """
    if not campaign.config.correct:
        return ()
    from buran.modeling.correction import correct, write_corrected
    from buran.modeling.correction.corrected import render

    target = {name: [value] for name, value in campaign.target.items()}
    out = []
    for kernel, model in campaign.config.correct.items():
        try:
            experiment = read_experiment(folder / "experiment.jsonl")
            names = python_names(experiment.parameters) if model == OWN else experiment.parameters
            columns = dict(zip(names, experiment.points.T, strict=True))
            base = _base(campaign, folder, kernel, model)
            correction = correct(base, columns, one_call_path(experiment, "time", kernel), seed=campaign.config.seed)
        except UsageError as error:
            why = f" ({error.why})" if error.why else ""
            out.append(CorrectedKernel(kernel, model, f"not corrected: {error.what}{why}"))
            continue
        write_corrected(folder / "corrected" / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', kernel)}.json", correction)
        at = base.points(dict(zip(python_names(list(target)), target.values(), strict=True)) | target)
        at_target = correction.predict(at)
        plain = base.evaluate(np.array(correction.theta), at)[0]
        report, formula = correction.report, render(correction).splitlines()
        beyond = "; beyond twice the measured values, where the correction is frozen"
        out.append(
            CorrectedKernel(
                kernel,
                model,
                f"{'left as it is: ' if report.refused else 'corrected by '}{report.reason}",
                formula,
                [*formula[2:], *map(str, report.thresholds), *report.notes],  # after the corrected and the base model
                "" if at_target.in_domain[0] else beyond,
                finite_or_none(plain),
                finite_or_none(at_target.value[0]),
                report.refused,
            )
        )
    return tuple(out)


def _base(campaign: Campaign, folder: Path, kernel: str, model: str) -> BaseModel:
    """Return a base model from its file, or of what the campaign itself found."""
    from buran.modeling.correction import load_base
    from buran.modeling.correction.base import base_of_function

    if model != OWN:
        return load_base(_model_path(campaign, model))
    sets = {models.metric: models for models in read_models(folder / "models.json")}
    if "time" not in sets:
        raise UsageError("the campaign has no models of time", where=kernel)
    times = sets["time"]
    index = row_of(times.call_paths, kernel)
    fitted = times.models[index]
    if fitted is None:
        raise UsageError("there is no model of this call path", where=times.call_paths[index])
    return base_of_function(
        fitted.function, times.parameters, kernel, times.unit or "s", scale=campaign.ranks_parameter
    )


def _model_path(campaign: Campaign, model: str) -> Path | str:
    path = below(campaign.path.parent, model)
    return path if path.exists() or "/" in model or model.endswith((".yaml", ".yml")) else model
