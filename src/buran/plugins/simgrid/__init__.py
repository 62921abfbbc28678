"""Simulated machines: real MPI programs run on a machine that SimGrid simulates."""
