# All runs of one point. The store keeps the runs; the output here only points to them, so that a forced
# or repeated job finds them there and measures nothing. A failed run is a result; it does not fail the job.
# No retries: they would favour the runs that happen to go well.
rule measure:
    input:
        builds=builds_of_bundle,
    output:
        PATHS.bundle_pointer("{bundle}"),
    log:
        "logs/measure/{bundle}.log",
    retries: 0
    conda:
        "../workflow/envs/buran.yaml"
    resources:
        bench_slot=1,
    message:
        "Measuring bundle {wildcards.bundle}"
    script:
        "../scripts/measure.py"
