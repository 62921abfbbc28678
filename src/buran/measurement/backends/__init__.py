"""Measurement systems: how a target is instrumented and where its profiles come from."""
