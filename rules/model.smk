# Models of every call path and metric from everything measured so far.
rule model:
    input:
        needs("model"),
    output:
        makes("model", "{iteration}"),
    log:
        "logs/model/{campaign}-{iteration}.log",
    localrule: HERE
    conda:
        "../workflow/envs/buran.yaml"
    message:
        "Modelling after iteration {wildcards.iteration}"
    params:
        step="model",
    script:
        "../scripts/step.py"
