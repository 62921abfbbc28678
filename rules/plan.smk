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
    params:
        step="plan",
    message:
        "Planning iteration {wildcards.iteration}"
    script:
        "../scripts/step.py"
