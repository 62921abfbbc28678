"""What Slurm says, and what that means: states of jobs, reasons why they wait, complaints about what was asked."""

from __future__ import annotations

import re

from buran.measure.schedulers.base import JobState
from buran.measure.schedulers.submission import JobReport, Refusal

PASSING_ENDS = frozenset(("TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REVOKED"))
"""After these starting again can help: time can be longer, nodes others."""

_ENDED = frozenset(("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", "PREEMPTED", "REVOKED"))
_LOST = frozenset(("NODE_FAIL", "BOOT_FAIL"))
_LIVE = frozenset(
    (
        *("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING"),
        *("STAGE_OUT", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"),
    )
)
_STATES = _ENDED | _LOST | _LIVE
_SHORT = {
    **{"BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "CF": "CONFIGURING", "CG": "COMPLETING"},
    **{"DL": "DEADLINE", "F": "FAILED", "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY", "PD": "PENDING", "PR": "PREEMPTED"},
    **{"R": "RUNNING", "RD": "RESV_DEL_HOLD", "RF": "REQUEUE_FED", "RH": "REQUEUE_HOLD", "RQ": "REQUEUED"},
    **{"RS": "RESIZING", "RV": "REVOKED", "S": "SUSPENDED", "SE": "SPECIAL_EXIT", "SI": "SIGNALING"},
    **{"SO": "STAGE_OUT", "ST": "STOPPED", "TO": "TIMEOUT"},
}
_ENDS = {
    "BOOT_FAIL": "lost its node, which did not boot",
    "CANCELLED": "was cancelled",
    "DEADLINE": "was ended by its deadline (--deadline)",
    "FAILED": "failed",
    "NODE_FAIL": "lost its node",
    "OUT_OF_MEMORY": "ran out of memory (resources.memory_mb)",
    "PREEMPTED": "was preempted by another job",
    "REVOKED": "was taken by another cluster",
    "TIMEOUT": "ran out of time",
}
_TIME = "see resources.time_limit_s, expected_s and time_margin"
_CPUS = "see resources.nodes, tasks_per_node, ranks and threads"
_SPENT = "the account has no time left: `sshare` shows it; another in resources.account, or ask who grants it"
_NEVER_STARTS = {  # the first that fits; what is not here comes with waiting: Priority, Resources, ...MaxJobs, ...Grp
    r"PartitionTimeLimit": f"the partition gives less time: {_TIME}",
    r"PartitionNodeLimit": "the partition gives fewer nodes: see resources.nodes",
    r"PartitionConfig": f"the partition has less than that, as `sinfo` shows: {_CPUS}",
    r"PartitionDown|PartitionInactive": "choose another in resources.partition, or ask the operators of the cluster",
    r"BadConstraints": "no node is like that: `sinfo -o '%N %f'` lists what nodes have; see resources.constraint",
    r"Held|held": "somebody holds it: `scontrol release JOB`, or ask the operators of the cluster",
    r"DependencyNeverSatisfied": "what it depends on has failed: see resources.extra",
    r"AccountNotAllowed|InvalidAccount": "the partition does not take it: see resources.account and partition",
    r"QOSNotAllowed|InvalidQOS|QOSUsageThreshold": "`sacctmgr show assoc user=$USER format=account,qos` lists yours; "
    "see resources.qos",
    r"ReservationDeleted|InvalidReservation": "`scontrol show reservation` lists them; see resources.reservation",
    r"ReqNodeNotAvail": "its nodes are down or reserved: `sinfo -R` says why",
    r"(Assoc|QOS)Grp\w*(Minutes|RunMin)|GrpBilling": _SPENT,
    r"\w*(Wall|WallDuration)(PerJob)?(Limit)?$|\w*Minutes(PerJob)?": f"more time than a job may have: {_TIME}",
    r"\w*Mem\w*Per(Job|Node|Limit)|MaxMemPerLimit|\w*MinMem": "memory outside of the limits: see resources.memory_mb",
    r"\w*Nodes?PerJob|\w*MinNode": "the number of nodes is outside of the limits: see resources.nodes",
    r"\w*C[Pp][Uu]s?PerJob|\w*MinC[Pp][Uu]": f"the number of CPUs is outside of the limits: {_CPUS}",
    r"\w*(PerJob|Min\w*NotSatisfied)": f"outside of the limits of its account or quality of service: {_CPUS}",
    r"JobLaunchFailure|launch failed|SystemFailure|FrontEndDown|InvalidBBPath|NodeDown": "ask the operators of the "
    "cluster; `scontrol show job` tells more",
}
_NEXT_STEPS = {  # the first that fits
    r"\baccount\b": "`sacctmgr show associations user=$USER` lists yours; say which in resources.account",
    r"partition": "`sinfo` lists the partitions; say which in resources.partition",
    r"MaxSubmit|job submit limit": "the site takes no more jobs of yours: key `jobs` of the profile, or "
    "resources.points_per_job",
    r"\bqos\b": "`sacctmgr show qos` lists them; say which in resources.qos",
    r"feature|constraint": "`sinfo -o '%N %f'` lists what nodes have; see resources.constraint",
    r"reservation": "`scontrol show reservation` lists them; see resources.reservation",
    r"memory": "`sinfo -o '%N %m'` lists what nodes have; see resources.memory_mb",
    r"time limit": "`sinfo -o '%P %l'` lists the partitions' limits; see resources.time_limit_s and time_margin",
    r"node count|node configuration|cpu count|more processors": "see resources.nodes, tasks_per_node and threads",
    r"credential|authentication|munge": "the clocks here and of Slurm differ, or munged is down: `munge -n | unmunge`",
    r"configuration (source|file)|slurm\.conf": "see the variable SLURM_CONF, or unset it",
}
_PASSING = re.compile(
    r"unable to contact|connection (refused|reset|timed out|failure)|timed out|zero bytes|communication|"
    r"temporarily un(available|able)|standby mode|unexpected message|authentication|credential|munge|try again|"
    r"transport endpoint|no route to host|network is unreachable",
    re.IGNORECASE,
)


def state_in_full(text: str) -> str:
    """Return a job's state as one word; empty for none.

    Slurm adds by whom it was cancelled (``CANCELLED by 1000``), cuts it to a column (``OUT_OF_ME+``) and shortens it
    (``CA``).
    """
    word = text.strip().upper().partition(" ")[0]
    if word.endswith("+"):
        return next((state for state in sorted(_STATES) if state.startswith(word[:-1])), word[:-1])
    return _SHORT.get(word, word)


def meaning_of(state: str) -> JobState:
    """Return what is known of a job by its state; of one that is not in Slurm's manual, nothing."""
    word = state_in_full(state)
    if word in _LOST:
        return JobState.LOST
    if word in _ENDED:
        return JobState.ENDED
    return JobState.LIVE if word in _LIVE else JobState.UNKNOWN


def end_in_words(state: str) -> str:
    """Say how a job ended."""
    word = state_in_full(state)
    return _ENDS.get(word, f"ended as {word}")


def step_to_start(reason: str) -> str | None:
    """Return what to do about a job that waits for what waiting alone may never bring; None for other reasons."""
    return next((step for pattern, step in _NEVER_STARTS.items() if re.search(pattern, reason)), None)


def is_passing(complaint: str) -> bool:
    """Tell whether what Slurm could not do now may work in a while."""
    return _PASSING.search(complaint) is not None


def report_of(state: str) -> JobReport:
    """Return what a job's state means to whoever submitted it."""
    word, meaning = state_in_full(state), meaning_of(state)
    is_over = meaning in (JobState.ENDED, JobState.LOST)
    words = end_in_words(word) if is_over else ""
    return JobReport(word, is_over, word == "COMPLETED", word in PASSING_ENDS, words)


def refusal_of(complaint: str) -> Refusal:
    """Return what can be done about a job that Slurm did not take."""
    if re.search(r"job array", complaint, re.IGNORECASE):
        return Refusal.NO_ARRAY
    if re.search(r"MaxSubmit", complaint):
        return Refusal.FULL
    if re.search(r"job submit limit", complaint):  # of all limits alike, where the reason is not named
        return Refusal.FINAL if step_to_start(complaint.partition(" ")[0]) else Refusal.FULL
    return Refusal.PASSING if is_passing(complaint) else Refusal.FINAL


def next_step(why: str) -> str:
    """Return what to do about Slurm's complaint, after a colon; empty if nothing is known of it."""
    steps = (step for pattern, step in _NEXT_STEPS.items() if re.search(pattern, why, re.IGNORECASE))
    return next((f": {step}" for step in steps), "")


def seconds(limit: str) -> float | None:
    """Return a time limit as Slurm writes it, ``[days-]hours:minutes:seconds``, in seconds; None for no limit."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", limit)
    if match is None:
        return None
    days, hours, minutes, rest = (int(number or 0) for number in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + rest)
