"""Tuned numbers that several modules of this package use."""

# Seconds of enter and exit of one visit where nothing was calibrated. Tuned: measured: Score-P 8.4 takes 58 ns.
VISIT_COST_S = 60e-9

# Of the share that makes a kernel: what has more stays where its hooks fit, as models err. Tuned: 16 lists of eight
# programs: without it they lack up to six functions of up to 0.4 % of the time, one of 1.9 % under hooks in
# everything; with no least share up to 80 more come in, none of them above 0.05 %.
NEAR_SHARE = 0.1

# Times the calibrated cost that a visit has at most where hooks prevent inlining: what else a run with hooks takes
# longer is the start and end of the measurement system. Tuned: judgement.
MOST_EXPENSIVE_VISIT = 20.0

# Of a single run, until several are known; a corrected time that is more uncertain is left out, one that changes by
# less is constant. Tuned: evidence/overhead.md: 2 to 15 %, on a busy machine 10 to 30 %.
SCATTER = 0.1
