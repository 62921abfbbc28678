"""Build one variant of the target."""

from pathlib import Path

from buran.campaign.plan import BuildSpec
from buran.loop.session import step
from buran.measure.build import build

with step(snakemake) as session:
    spec = BuildSpec.read(session.layout.build_spec(snakemake.wildcards.build))
    build(session.target, session.layout, spec).write(Path(snakemake.output[0]))
