"""Build one variant of the target."""

from pathlib import Path

from buran.campaign.plan import BuildSpec
from buran.measurement.build import build, check_build
from buran.workflow.session import step

with step(snakemake) as session:
    spec = BuildSpec.read(session.layout.build_spec(snakemake.wildcards.build))
    outcome = build(session.target, session.layout, spec)
    check_build(session.layout, spec, outcome)
    outcome.write(Path(snakemake.output[0]))
