# The Score-P filter that the models suggest for the next iteration.
rule refine:
    input:
        models=previous_models,
        build=graph_of_start,
    output:
        PATHS.filter("{campaign}", "{iteration}"),
    log:
        "logs/refine/{campaign}-{iteration}.log",
    localrule: HERE
    conda:
        "../workflow/envs/buran.yaml"
    message:
        "Refining the instrumentation for iteration {wildcards.iteration}"
    script:
        "../scripts/refine.py"
