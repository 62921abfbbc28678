# The Score-P filter that the models suggest for the next iteration.
rule refine:
    input:
        needs("refine"),
    output:
        makes("refine", "{iteration}"),
    log:
        "logs/refine/{campaign}-{iteration}.log",
    localrule: HERE
    conda:
        "../workflow/envs/buran.yaml"
    params:
        step="refine",
    message:
        "Refining the instrumentation for iteration {wildcards.iteration}"
    script:
        "../scripts/step.py"
