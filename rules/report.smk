# What the user takes home: report, models, measurements and the filter list.
rule report:
    input:
        plan=final_plan,
        models=final_models,
    output:
        PATHS.results("{campaign}") / "report.txt",
    log:
        "logs/report/{campaign}.log",
    conda:
        "../workflow/envs/buran.yaml"
    message:
        "Writing the report"
    script:
        "../scripts/report.py"
