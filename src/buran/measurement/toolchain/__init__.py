"""Compilers, MPI libraries and the native code that is built for them."""
