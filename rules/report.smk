# What the user takes home: report, models, measurements and the filter list. `snakemake --report FILE` takes in what is
# marked for it. What `buran report` shows stays until the new one takes its place; the table is removed before, so that a
# report that failed is made again.
rule report:
    input:
        plan=final_plan,
        models=final_models,
    output:
        update(PATHS.results("{campaign}") / "report.txt"),
        update(
            report(
                PATHS.results("{campaign}") / "report.html",
                caption="../workflow/report/page.rst",
                category="Campaign",
                labels={"campaign": SESSION.campaign.name, "what": "page"},
            )
        ),
        report(
            PATHS.results("{campaign}") / "report.csv",
            caption="../workflow/report/call-paths.rst",
            category="Campaign",
            labels={"campaign": SESSION.campaign.name, "what": "call paths"},
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
