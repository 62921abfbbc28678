"""The measurement table, call path x metric x point x repetition, and the formats it travels in."""

TABLE = "experiment.jsonl"
"""File of a campaign's measurements."""
