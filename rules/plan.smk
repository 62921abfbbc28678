# Which runs come next. A checkpoint: what has to be built and measured is known only when it is done.
checkpoint plan:
    input:
        needs("plan"),
    output:
        makes("plan", "{iteration}"),
    log:
        "logs/plan/{campaign}-{iteration}.log",
    localrule: HERE
    conda:
        "../workflow/envs/buran.yaml"
    message:
        "Planning iteration {wildcards.iteration}"
    params:
        step="plan",
    script:
        "../scripts/step.py"
