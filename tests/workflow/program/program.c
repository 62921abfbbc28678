/* A small MPI program that misbehaves on demand: its size argument chooses how. A second argument chooses a solver. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef SIZE
#define SIZE_IS_FIXED 1
#else
#define SIZE_IS_FIXED 0
#define SIZE 0
#endif

enum { CRASH = 13, HANG = 14 };

static volatile double sink;

__attribute__((noinline)) static void work(int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            sum += (double)i / (j + 1);
    sink = sum;
}

int main(int argc, char **argv) {
    int n = SIZE_IS_FIXED ? SIZE : argc > 1 ? atoi(argv[1]) : 1;
    static const int cost[] = {1, 1, 6, 3};
    int solver = argc > 2 ? atoi(argv[2]) & 3 : 1;
    int rank, ranks, all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (n == CRASH && rank == ranks - 1)
        raise(SIGSEGV);
    if (n == HANG)
        for (;;)
            sleep(1);
    for (int step = 0; step < 20 * cost[solver]; step++)
        work(n);
    MPI_Allreduce(&n, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0)
        printf("sum of n: %d\n", all);
    return 0;
}
