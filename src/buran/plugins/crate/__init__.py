"""RO-Crates of campaigns, written from their results."""
