"""Take measurements that exist already over into the store."""

from pathlib import Path

from buran.files import write_json
from buran.loop.import_runs import import_runs
from buran.loop.session import step

with step(snakemake) as session:
    write_json(Path(snakemake.output[0]), import_runs(session, int(snakemake.wildcards.iteration)))
