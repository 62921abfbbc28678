"""How long tests wait for what must come: a guard against hanging for ever, not a measure; machines may be busy."""

PATIENCE_S = 1800.0
