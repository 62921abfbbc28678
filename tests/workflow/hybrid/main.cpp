// MPI and OpenMP: every rank works on n values, with its threads; the sums of all ranks go to all.
#include "kernels.h"

#include <cstdio>
#include <cstdlib>
#include <mpi.h>
#include <vector>

static void exchange(std::vector<double> &sums, std::vector<double> &totals) {
    MPI_Allreduce(sums.data(), totals.data(), static_cast<int>(sums.size()), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    long n = argc > 1 ? std::atol(argv[1]) : 100;
    std::vector<double> values(n), sums(20), totals(20);
    for (long i = 0; i < n; i++)
        values[i] = static_cast<double>((i * 37) % 101);
    for (int step = 0; step < 5; step++) {
        sums[0] = relax(values.data(), n);
        sums[1] = search(values.data(), n);
        exchange(sums, totals);
    }
    std::printf("%g\n", totals[0] + totals[1]);
    MPI_Finalize();
    return 0;
}
