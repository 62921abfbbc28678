# Models of every call path and metric from everything measured so far.
rule model:
    input:
        bundles=bundles_so_far,
    output:
        models=PATHS.models("{campaign}", "{iteration}"),
        findings=PATHS.findings("{campaign}", "{iteration}"),
        table=PATHS.table("{campaign}", "{iteration}"),
    log:
        "logs/model/{campaign}-{iteration}.log",
    localrule: HERE
    conda:
        "../workflow/envs/buran.yaml"
    message:
        "Modelling after iteration {wildcards.iteration}"
    script:
        "../scripts/model.py"
