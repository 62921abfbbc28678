# Measurements that exist already become finished runs in the store. All of them in one job: nothing is started.
rule import_runs:
    input:
        PATHS.plan("{campaign}", "{iteration}"),
    output:
        PATHS.imports("{campaign}", "{iteration}"),
    log:
        "logs/import_runs/{campaign}-{iteration}.log",
    localrule: HERE
    conda:
        "../workflow/envs/buran.yaml"
    message:
        "Importing measurements"
    script:
        "../scripts/import_runs.py"
