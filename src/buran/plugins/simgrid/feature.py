"""What simulated machines add to campaigns; heavier modules are imported where they are used."""

from __future__ import annotations

from buran.features import Feature, Key, late
from buran.plugins.simgrid.keys import KEY, MachineKeys

FEATURE = Feature(
    KEY,
    Key(
        MachineKeys | None,
        None,
        "A machine simulated by SimGrid: programs really run, all ranks in one process, and times are those of this "
        "machine. By default, the machine that Buran runs on.",
    ),
    mistakes=late("buran.plugins.simgrid.checks:mistakes"),
    misfits=late("buran.plugins.simgrid.checks:misfits"),
    identity=late("buran.plugins.simgrid.simulator:identity_of"),
    simulator=late("buran.plugins.simgrid.simulator:simulator_of"),
    findings=late("buran.plugins.simgrid.mpi:findings"),
    write=late("buran.plugins.simgrid.calibrate:write_calibration"),
)
