#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct { double x, y, z; } vector;

static inline double distance(vector a, vector b) {
    double x = a.x - b.x, y = a.y - b.y, z = a.z - b.z;
    return sqrt(x * x + y * y + z * z + 1e-6);
}

void forces(const vector *all, int n, const vector *mine, int few, vector *force) {
    for (int i = 0; i < few; i++) {
        force[i] = (vector){0, 0, 0};
        for (int j = 0; j < n; j++) {
            double d = distance(mine[i], all[j]), f = 1.0 / (d * d * d);
            force[i].x += f * (all[j].x - mine[i].x);
            force[i].y += f * (all[j].y - mine[i].y);
            force[i].z += f * (all[j].z - mine[i].z);
        }
    }
}

void move(vector *mine, int few, const vector *force) {
    for (int i = 0; i < few; i++) {
        mine[i].x += 1e-9 * force[i].x;
        mine[i].y += 1e-9 * force[i].y;
        mine[i].z += 1e-9 * force[i].z;
    }
}

double energy(const vector *all, int n, int first, int step) {
    double sum = 0;
    for (int i = first; i < n; i += step)
        for (int j = 0; j < i; j++)
            sum -= 1.0 / distance(all[i], all[j]);
    return sum;
}

double over_ranks(double own) {
    double sum;
    MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int ranks, rank, n = argc > 1 ? atoi(argv[1]) : 1200;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int few = n / ranks; /* ranks divide n */
    vector *all = malloc(n * sizeof *all), *mine = malloc(few * sizeof *mine), *force = malloc(few * sizeof *force);
    for (int i = 0; i < few; i++) {
        int k = rank * few + i;
        mine[i] = (vector){sin(k), cos(2.0 * k), sin(3.0 * k)};
    }
    for (int step = 0; step < 10; step++) {
        MPI_Allgather(mine, 3 * few, MPI_DOUBLE, all, 3 * few, MPI_DOUBLE, MPI_COMM_WORLD);
        forces(all, n, mine, few, force);
        move(mine, few, force);
    }
    MPI_Allgather(mine, 3 * few, MPI_DOUBLE, all, 3 * few, MPI_DOUBLE, MPI_COMM_WORLD);
#ifdef MENDED
    double sum = over_ranks(energy(all, n, rank, ranks)); /* each rank its part of the rows */
#else
    double sum = energy(all, n, 0, 1); /* every rank all of them */
#endif
    if (rank == 0) printf("energy %g\n", sum);
    MPI_Finalize();
    return 0;
}
