"""The measurement systems that a campaign file can name; `measure.backends` says what they are."""

from __future__ import annotations

from buran.extensions import ExtensionPoint

BACKENDS: ExtensionPoint[object] = ExtensionPoint(
    "backend",
    "buran.backends",
    object,
    {
        "embedded": "buran.measurement.backends.embedded:EMBEDDED",
        "command": "buran.measurement.backends.command:COMMAND",
    },
    {"simulated": "buran-studies"},
)
