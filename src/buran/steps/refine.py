"""Deciding the filter of the next iteration; a decision that was measured with is kept."""

from __future__ import annotations

import numpy as np

from buran.files import digest, write_text
from buran.instrument.filter_file import format_filter, parse
from buran.instrument.refine import refine
from buran.model.model_set import read_models
from buran.steps.findings import Findings
from buran.steps.session import Session

SETTLED_HOOK_SHARE = 0.01
"""A filter whose hooks cost less of the predicted run time is kept: measuring everything again gains nothing."""


def rules_of(filter_text: str) -> str:
    """Return a filter without its comments: what decides whether two builds are the same."""
    return format_filter(parse(filter_text)) if filter_text else ""


def refined_filter(session: Session, iteration: int) -> str:
    """Return the filter that an iteration is built with.

    Points that are added to a campaign later do not change a filter that was measured with: that would make
    every measurement under it worthless. Other refinement settings or another target decide anew.
    """
    layout, config = session.layout, session.campaign.config
    settings = digest([config.refinement.model_dump(mode="json"), config.strategy.name], 8)
    decided = layout.decided_filter(session.target.id, settings, iteration)
    if decided.is_file():
        return decided.read_text()
    text = _decide(session, iteration - 1)
    write_text(decided, text)
    return text


def _decide(session: Session, iteration: int) -> str:
    layout, campaign = session.layout, session.campaign
    findings = Findings.read(layout.findings(session.id, iteration))
    if not campaign.config.refinement.enabled or len(findings.tree) == 0:
        return findings.filter_text
    sets = {each.metric: each for each in read_models(layout.models(session.id, iteration))}
    if "time" not in sets or "visits" not in sets:
        return findings.filter_text
    target = np.array([campaign.refinement_target[name] for name in campaign.parameters], dtype=np.float64)
    refinement = refine(
        findings.tree,
        sets["time"],
        sets["visits"],
        target,
        share=campaign.config.refinement.share,
    )
    if findings.filter_text and refinement.hook_share < SETTLED_HOOK_SHARE:
        return findings.filter_text
    return refinement.filter_text()
