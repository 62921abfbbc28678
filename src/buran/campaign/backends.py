"""The measurement systems that a campaign file can name; `measure.backends` says what they are."""

from __future__ import annotations

from buran.plugins import Door

BACKENDS: Door[object] = Door(
    "backend",
    "buran.backends",
    object,
    {
        "embedded": "buran.measure.backends.embedded:EMBEDDED",
        "scorep": "buran.measure.backends.scorep:SCOREP",
        "command": "buran.measure.backends.command:COMMAND",
    },
    {"simulated": "buran-studies"},
)
