# All runs of one point. The store keeps the runs; the output here only points to them, so that a forced
# or repeated job finds them there and measures nothing. A failed run is a result; it does not fail the job.
# On a cluster the job starts the program itself, with ranks and nodes in so many words.
# No retries: they would favour the runs that happen to go well.
rule measure:
    input:
        needs("measure"),
    output:
        makes("measure", "{bundle}"),
    log:
        "logs/measure/{shard}/{bundle}.log",
    retries: 0
    conda:
        "../workflow/envs/buran.yaml"
    resources:
        **measure_resources(),
        bench_slot=1,
    message:
        "Measuring bundle {wildcards.bundle}"
    script:
        "../scripts/measure.py"


# Points that share jobs (key resources.points_per_job), and very many jobs that need the same resources: one for the
# engine. Our executor submits each job, as arrays where it can; on this machine all is measured one after the other.
# Each point has its records, its claim and its pointer as if it were alone.
rule measure_together:
    input:
        needs("measure_together"),
    output:
        makes("measure_together", "{batch}"),
    log:
        "logs/measure_together/{shard}/{batch}.log",
    retries: 0
    conda:
        "../workflow/envs/buran.yaml"
    resources:
        **measure_resources(),
        bench_slot=1,
    message:
        "Measuring the bundles of batch {wildcards.batch}"
    script:
        "../scripts/measure.py"
