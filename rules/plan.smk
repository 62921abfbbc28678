# Which runs come next. A checkpoint: what has to be built and measured is known only when it is done.
checkpoint plan:
    input:
        models=previous_models,
        filter=refined_filter,
    output:
        PATHS.plan("{campaign}", "{iteration}"),
    log:
        "logs/plan/{campaign}-{iteration}.log",
    localrule: HERE
    conda:
        "../workflow/envs/buran.yaml"
    message:
        "Planning iteration {wildcards.iteration}"
    script:
        "../scripts/plan.py"
