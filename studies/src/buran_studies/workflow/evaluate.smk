# Evaluations, one job for each shard. `buran evaluate STUDY` starts it:
#
#   snakemake --snakefile evaluate.smk --config evaluation=FOLDER
#
# FOLDER holds the settings; finished shards are never worked on again.
from pathlib import Path

from buran_studies.evaluation.run import Run

EVALUATION = Run.open(Path(config["evaluation"]))


workdir: EVALUATION.folder


localrules:
    evaluate_all,


rule evaluate_all:
    default_target: True
    input:
        [EVALUATION.result(shard) for shard in EVALUATION.shards],


rule evaluate:
    input:
        lambda wildcards: EVALUATION.needed(wildcards.shard),
    output:
        EVALUATION.result("{shard}"),
    log:
        "logs/evaluate/{shard}.log",
    threads: lambda wildcards: workflow.cores if EVALUATION.alone(wildcards.shard) else 1
    message:
        "Working on shard {wildcards.shard}"
    script:
        "evaluate.py"
