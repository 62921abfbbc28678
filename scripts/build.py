"""Build one variant of the target."""

from pathlib import Path

from buran.campaign.plan import BuildSpec
from buran.loop.session import step
from buran.measure.build import build, check_build

with step(snakemake) as session:
    spec = BuildSpec.read(session.layout.build_spec(snakemake.wildcards.build))
    outcome = build(session.target, session.layout, spec)
    check_build(session.layout, spec, outcome)
    outcome.write(Path(snakemake.output[0]))
