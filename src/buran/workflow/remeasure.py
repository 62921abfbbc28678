"""Opening a new generation of a point's measurements."""

from __future__ import annotations

from collections.abc import Mapping

from buran.campaign.config import Campaign
from buran.campaign.point import Point
from buran.campaign.records import BundleOutcome, RunKey
from buran.errors import UsageError
from buran.measurement.store import store
from buran.workflow.history import read_plans
from buran.workflow.session import Session


def point_of(campaign: Campaign, values: Mapping[str, float]) -> Point:
    """Return the point of the campaign with these values.

    Raises
    ------
    UsageError
        There is none.
    """
    point = Point.of(dict(values))
    if point not in (*campaign.points, *campaign.evaluation_points):
        raise UsageError(
            f"{point.key} is no point of campaign {campaign.name}",
            where="--remeasure",
            why=_why_no_point(campaign, point),
            hint="see `buran plan` for the points",
        )
    return point


def _why_no_point(campaign: Campaign, point: Point) -> str:
    """Say which of a point's values the campaign does not have."""
    if point.keys() != set(campaign.parameters):
        return f"its parameters are {', '.join(campaign.parameters)}"
    every = (*campaign.points, *campaign.evaluation_points)
    values = {name: sorted({other[name] for other in every}) for name in campaign.parameters}
    wrong = {name: known for name, known in values.items() if point[name] not in known}
    return "; ".join(
        f"{name} is {' or '.join(filter(None, (', '.join(map(str, known[:-1])), str(known[-1]))))}"
        for name, known in (wrong or values).items()
    ) + ("" if wrong else ", but not all of them together")


def open_generation(session: Session, point: Point) -> int:
    """Have all configurations of a point that the campaign uses measured again; return their number."""
    layout = session.layout
    builds = {build.hash for plan in read_plans(layout, session.id) for build in plan.builds}
    keys = [RunKey.parse(folder.relative_to(layout.store)) for folder in store.run_folders(layout.store)]
    of_point = {key.folder: key for key in keys if key.point == point.key and key.build in builds}
    if not of_point:
        raise UsageError(f"{point.key} was not measured yet", hint="`buran run` measures it")
    for key in of_point.values():
        store.new_generation(layout.store, key)
    for pointer in layout.made_pointers("bundles"):
        if BundleOutcome.read(pointer).point == point:
            pointer.unlink()
    return len(of_point)
