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
    params:
        step="model",
    message:
        "Modelling after iteration {wildcards.iteration}"
    script:
        "../scripts/step.py"
