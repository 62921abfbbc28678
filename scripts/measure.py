"""Measure a bundle: all runs of one point."""

from pathlib import Path

from buran.files import write_json
from buran.loop.measure import measure
from buran.loop.session import step

with step(snakemake) as session:
    write_json(Path(snakemake.output[0]), measure(session, snakemake.wildcards.bundle))
