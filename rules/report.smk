# What the user takes home: report, models, measurements and the filter list. `snakemake --report FILE` takes in what is
# marked for it. What `buran report` shows stays until the new one takes its place; the table is removed before, so that a
# report that failed is made again.
TEXT, PAGE, CALL_PATHS = makes("report")


rule report:
    input:
        needs("report"),
    output:
        update(TEXT),
        update(
            report(
                PAGE,
                caption="../workflow/report/page.rst",
                category="Campaign",
                labels={"campaign": SESSION.campaign.name, "what": "page"},
            )
        ),
        report(
            CALL_PATHS,
            caption="../workflow/report/call-paths.rst",
            category="Campaign",
            labels={"campaign": SESSION.campaign.name, "what": "call paths"},
        ),
    log:
        "logs/report/{campaign}.log",
    localrule: HERE
    conda:
        "../workflow/envs/buran.yaml"
    params:
        step=lambda _: "report",
    message:
        "Writing the report"
    script:
        "../scripts/step.py"
