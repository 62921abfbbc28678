"""Carry out a step of an iteration, or the report: the one that the rule names."""

from buran.workflow.session import step
from buran.workflow.steps import Step

with step(snakemake) as session:
    Step(snakemake.params.step, snakemake.wildcards[-1]).carry_out(session)
