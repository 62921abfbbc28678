/* Most of the time goes by in a function of a few nanoseconds: with hooks in it, the program is many times slower. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double tiny(double x, int i) { return 0.5 * x + i; }

static double tinier(double x) { return x < 1e9 ? x : 0; }

static double grind(int n) {
    double x = 1;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            x = tinier(tiny(x, i ^ j));
    return x;
}

static double prepare(int n) {
    double x = 0;
    for (int i = 0; i < 100 * n; i++)
        x += 1.0 / (i + 1);
    return x;
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 100;
    double x = 0;
    MPI_Init(&argc, &argv);
    for (int step = 0; step < 10; step++)
        x += grind(n) + prepare(n);
    MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    printf("%g\n", x);
    return 0;
}
