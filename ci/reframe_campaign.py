"""A campaign as a test of ReFrame: `buran run`, then `buran report --compare --fail-on` decides.

    reframe -c ci/reframe_campaign.py -r -S campaign=$PWD/new/campaign.yaml -S before=$PWD/old/campaign.yaml

What is predicted for the target, and what measuring cost, are lines of the perflog.
"""

import json
import shlex
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import deferrable, performance_function, run_before, sanity_function, variable


@rfm.simple_test
class CampaignTest(rfm.RunOnlyRegressionTest):
    """Passes where no condition comes true.

    Attributes
    ----------
    campaign, before
        Absolute paths of two campaign files; without the second one nothing is compared.
    fail_on
        Conditions, as of `buran report --fail-on`.
    """

    campaign = variable(str)
    before = variable(str, value="")
    fail_on = variable(str, value="effort,class")
    valid_systems = ["*"]  # noqa: RUF012 (a list is asked for)
    valid_prog_environs = ["*"]  # noqa: RUF012
    sourcesdir = None
    executable = "buran"
    local = True  # buran submits jobs itself, where its profile says so

    @run_before("run")
    def compose(self) -> None:
        """Write the commands of the job."""
        file = shlex.quote(self.campaign)
        self.executable_opts = ["run", file, "&&", "buran", "report", file, "--json", ">", "report.json"]
        if self.before:
            against = ["--compare", shlex.quote(self.before), "--fail-on", shlex.quote(self.fail_on)]
            self.executable_opts += ["&&", "buran", "report", file, *against]

    @sanity_function
    def nothing_came_true(self) -> bool:
        """Exit codes: 0 for nothing, 5 for a condition."""
        return sn.assert_eq(self.job.exitcode, 0, "exit code {0}: the output says why")

    @deferrable
    def report(self) -> dict:
        """Return what `buran report --json` says."""
        return json.loads((Path(self.stagedir) / "report.json").read_text())

    @performance_function("s")
    def run_time_at_the_target(self) -> float:
        """Predict the run time of the whole program at the campaign's target."""
        return self.report()["at_target"]["whole_s"]

    @performance_function("core hours")
    def measured_for(self) -> float:
        """Return what the measurements cost."""
        return self.report()["spent_core_hours"]
