"""Programs of known complexity: C++ and MPI, with the truth beside them."""
