"""The phases of a campaign, in their order: each gives the next plan, or None if its turn is over or not yet there."""

from __future__ import annotations

from collections.abc import Callable

from buran.campaign.plan import Plan
from buran.planning.draft import Draft
from buran.planning.phases.end import end, halt
from buran.planning.phases.pilot import find_functions, settle_filter
from buran.planning.phases.rounds import first_round, next_round

Phase = Callable[[Draft], Plan | None]
PHASES: tuple[Phase, ...] = (find_functions, settle_filter, first_round, halt, next_round, end)
