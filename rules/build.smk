# One build variant of the target. The store keeps the build; the output here only points to it.
rule build:
    output:
        makes("build", "{build}"),
    log:
        "logs/build/{build}.log",
    localrule: HERE
    conda:
        "../workflow/envs/buran.yaml"
    resources:
        bench_slot=1,
    message:
        "Building variant {wildcards.build}"
    script:
        "../scripts/build.py"
