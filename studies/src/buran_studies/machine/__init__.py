"""The study of simulated machines: real programs on SimGrid beside a real MPI, and beside theory."""
