"""Build one variant of the target."""

from pathlib import Path

from buran.loop.session import step
from buran.measure.build import build

with step(snakemake) as session:
    spec = session.layout.read_build_spec(snakemake.wildcards.build)
    build(session.target, session.layout, spec).write(Path(snakemake.output[0]))
