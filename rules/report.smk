# What the user takes home: report, models, measurements and the filter list. `snakemake --report FILE` takes in what is
# marked for it.
rule report:
    input:
        plan=final_plan,
        models=final_models,
    output:
        PATHS.results("{campaign}") / "report.txt",
        report(
            PATHS.results("{campaign}") / "report.html",
            caption="../workflow/report/page.rst",
            category="Campaign",
            labels={"campaign": SESSION.campaign.name, "what": "page"},
        ),
        report(
            PATHS.results("{campaign}") / "report.csv",
            caption="../workflow/report/call-paths.rst",
            category="Campaign",
            labels={"campaign": SESSION.campaign.name, "what": "call paths"},
        ),
        report(
            PATHS.results("{campaign}") / "points.csv",
            caption="../workflow/report/points.rst",
            category="Campaign",
            labels={"campaign": SESSION.campaign.name, "what": "points"},
        ),
    log:
        "logs/report/{campaign}.log",
    localrule: HERE
    conda:
        "../workflow/envs/buran.yaml"
    message:
        "Writing the report"
    script:
        "../scripts/report.py"
