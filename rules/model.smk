# Models of every call path and metric from everything measured so far.
rule model:
    input:
        bundles=bundles_so_far,
    output:
        models=PATHS.iteration("{campaign}", "{iteration}") / "models.json",
        experiment=PATHS.iteration("{campaign}", "{iteration}") / "experiment.jsonl",
    log:
        "logs/model/{campaign}-{iteration}.log",
    message:
        "Modelling after iteration {wildcards.iteration}"
    script:
        "../scripts/model.py"
