"""Opening a new generation of a point's measurements."""

from __future__ import annotations

from buran.campaign.config import Campaign
from buran.campaign.point import Point, Value
from buran.errors import UsageError
from buran.files import read_json
from buran.measure import store
from buran.steps.session import Session


def parse_point(campaign: Campaign, text: str) -> Point:
    """Parse ``p=4,n=1000`` into a point of the campaign.

    Raises
    ------
    UsageError
        It is malformed or no point of the campaign.
    """
    values: dict[str, Value] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        try:
            values[name.strip()] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise UsageError(f"cannot read the point {text!r}", where="--point", hint="write it as in p=4,n=1000")
    point = Point.of(values)
    if point not in (*campaign.points, *campaign.evaluation_points):
        raise UsageError(
            f"{point.key} is no point of campaign {campaign.name}",
            where="--point",
            why=f"its parameters are {', '.join(campaign.parameters)}",
            hint="see `buran plan` for the points",
        )
    return point


def open_generation(session: Session, point: Point) -> int:
    """Have all configurations of a point that the campaign uses measured again; return their number."""
    layout = session.layout
    builds = {build.hash for plan in layout.read_plans(session.id) for build in plan.builds}
    folders = [path for path in layout.store.glob(f"*/{point.key}~*/") if path.parent.name in builds]
    if not folders:
        raise UsageError(f"{point.key} was not measured yet", hint="`buran run` measures it")
    for folder in folders:
        store.new_generation(folder)
    for pointer in layout.made_pointers("bundles"):
        if Point.of(read_json(pointer)["point"]) == point:
            pointer.unlink()
    return len(folders)
