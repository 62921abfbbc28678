/* A wavefront over a 2-D process grid, as in discrete-ordinates transport codes.
 *
 *     sweep n blocks [iterations]
 *
 * Every rank owns columns of n x n cells, n * blocks cells high (weak scaling). Particles fly in eight
 * directions, one for each corner of the domain. A cell needs the flux of its three upstream neighbours, so a
 * direction is swept as a pipeline: receive a block's faces from the upstream ranks, compute the block of
 * n x n x n cells, send its faces downstream. The last rank waits for px + py - 2 blocks before its first one:
 * waiting time grows as sqrt(p) n^3, work as blocks n^3.
 *
 * Ranks at a border send to and receive from MPI_PROC_NULL, and the loop over a block is flat: executed basic
 * blocks do not depend on the number of ranks, and have no terms of lower order in n. */

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kernels stay functions of their own in every build, so that each has its own place in a profile. */
#define KERNEL static __attribute__((noinline))

#define SIGMA_TOTAL 1.0   /* collisions per cell width */
#define SIGMA_SCATTER 0.5 /* those after which a particle flies on in another direction */
#define MU 0.57735026918962576451 /* direction cosine, the same along each axis */
#define WEIGHT 0.125      /* of each of the eight directions */
#define DIRECTIONS 8
#define MAX_N 500
#define MAX_CELLS 200000000L /* of a rank */

typedef struct {
    int n, blocks;
    int ranks, rank;
    int dims[2], coords[2];
    MPI_Comm comm;
    double *fixed_source; /* n^3 * blocks values each, x fastest */
    double *source;
    double *flux;
    double *face_x, *face_y, *face_z; /* n^2 each: flux through the side faces and the bottom or top of a block */
} Domain;

static long cells_of(const Domain *d) { return (long)d->n * d->n * d->n * d->blocks; }

/* Where a direction enters a block, and the way to the next cell along each axis */
typedef struct {
    long first, step_x, step_y, step_z;
} Path;

/* ---- kernels ---------------------------------------------------------------------------------------------- */

/* One block in upwind order: n^3. The three indices count like an odometer without branches. */
KERNEL void sweep_block(int n, Path path, const double *source, double *flux, double *face_x, double *face_y,
                        double *face_z) {
    const double scale = 1.0 / (SIGMA_TOTAL + 3.0 * MU);
    const long cells = (long)n * n * n;
    int x = 0, y = 0, z = 0;
    for (long c = 0; c < cells; ++c) {
        const long cell = path.first + x * path.step_x + y * path.step_y + z * path.step_z;
        const double inflow = face_x[y + n * z] + face_y[x + n * z] + face_z[x + n * y];
        const double psi = (source[cell] + MU * inflow) * scale;
        face_x[y + n * z] = psi;
        face_y[x + n * z] = psi;
        face_z[x + n * y] = psi;
        flux[cell] += WEIGHT * psi;
        const int next_y = ++x == n;
        x -= next_y * n;
        y += next_y;
        const int next_z = y == n;
        y -= next_z * n;
        z += next_z;
    }
}

/* What leaves through a face: n^2 */
KERNEL double sum_face(int count, const double *face) {
    double sum = 0.0;
    for (int k = 0; k < count; ++k) {
        sum += face[k];
    }
    return sum;
}

/* Source of the next iteration: n^3 blocks */
KERNEL void scatter(long cells, const double *fixed_source, const double *flux, double *source) {
    for (long c = 0; c < cells; ++c) {
        source[c] = fixed_source[c] + SIGMA_SCATTER * flux[c];
    }
}

/* Sum over the own cells: n^3 blocks */
KERNEL double sum_cells(long cells, const double *values) {
    double sum = 0.0;
    for (long c = 0; c < cells; ++c) {
        sum += values[c];
    }
    return sum;
}

/* ---- communication ---------------------------------------------------------------------------------------- */

/* Two messages of n^2 doubles. Nothing flies in from outside: at a border the faces stay zero. */
KERNEL void receive_upstream(Domain *d, int from_x, int from_y) {
    const int count = d->n * d->n;
    memset(d->face_x, 0, sizeof(double) * (size_t)count);
    memset(d->face_y, 0, sizeof(double) * (size_t)count);
    MPI_Recv(d->face_x, count, MPI_DOUBLE, from_x, 0, d->comm, MPI_STATUS_IGNORE);
    MPI_Recv(d->face_y, count, MPI_DOUBLE, from_y, 1, d->comm, MPI_STATUS_IGNORE);
}

KERNEL void send_downstream(Domain *d, int to_x, int to_y) {
    const int count = d->n * d->n;
    MPI_Send(d->face_x, count, MPI_DOUBLE, to_x, 0, d->comm);
    MPI_Send(d->face_y, count, MPI_DOUBLE, to_y, 1, d->comm);
}

/* ---- the sweep -------------------------------------------------------------------------------------------- */

/* All blocks in one direction; bit 0, 1, 2 of `direction`: downwards in x, y, z. Returns the leakage. */
KERNEL double sweep_direction(Domain *d, int direction) {
    const int n = d->n, count = n * n;
    const int down_x = direction & 1, down_y = direction >> 1 & 1, down_z = direction >> 2 & 1;
    int from_x, from_y, to_x, to_y;
    MPI_Cart_shift(d->comm, 0, down_x ? -1 : 1, &from_x, &to_x);
    MPI_Cart_shift(d->comm, 1, down_y ? -1 : 1, &from_y, &to_y);
    const double border_x = to_x == MPI_PROC_NULL, border_y = to_y == MPI_PROC_NULL;

    Path path;
    path.step_x = down_x ? -1 : 1;
    path.step_y = down_y ? -n : n;
    path.step_z = down_z ? -count : count;
    const long corner = (down_x ? n - 1 : 0) + (long)n * (down_y ? n - 1 : 0) + (long)count * (down_z ? n - 1 : 0);

    double leakage = 0.0;
    memset(d->face_z, 0, sizeof(double) * (size_t)count);
    for (int b = 0; b < d->blocks; ++b) {
        path.first = corner + (long)n * count * (down_z ? d->blocks - 1 - b : b);
        receive_upstream(d, from_x, from_y);
        sweep_block(n, path, d->source, d->flux, d->face_x, d->face_y, d->face_z);
        send_downstream(d, to_x, to_y);
        /* inside the domain a face's flux is the neighbour's inflow, not lost: it counts zero */
        leakage += border_x * sum_face(count, d->face_x) + border_y * sum_face(count, d->face_y);
    }
    return leakage + sum_face(count, d->face_z);
}

/* All eight directions; the two that start at the same corner of the process grid follow each other without a gap */
KERNEL double sweep_all(Domain *d) {
    double leakage = 0.0;
    memset(d->flux, 0, sizeof(double) * (size_t)cells_of(d));
    for (int k = 0; k < DIRECTIONS; ++k) {
        leakage += sweep_direction(d, k >> 1 | (k & 1) << 2);
    }
    return leakage;
}

/* ---- set-up and check ------------------------------------------------------------------------------------- */

static double *zeros(long count) {
    double *values = calloc((size_t)count, sizeof(double));
    if (values == NULL) {
        fprintf(stderr, "sweep: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return values;
}

/* A pattern over global cells, so the same for every distribution over ranks: n^3 blocks */
KERNEL void make_source(int n, long cells, const int *coords, double *fixed_source) {
    for (long c = 0; c < cells; ++c) {
        const long x = c % n + (long)n * coords[0], y = c / n % n + (long)n * coords[1], z = c / n / n;
        fixed_source[c] = 1.0 + (double)((x + 2 * y + 3 * z) % 5);
    }
}

static Domain make_domain(int n, int blocks) {
    Domain d = {.n = n, .blocks = blocks};
    const int periodic[2] = {0, 0};
    MPI_Comm_size(MPI_COMM_WORLD, &d.ranks);
    MPI_Dims_create(d.ranks, 2, d.dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, d.dims, periodic, 0, &d.comm);
    MPI_Comm_rank(d.comm, &d.rank);
    MPI_Cart_coords(d.comm, d.rank, 2, d.coords);
    const long cells = cells_of(&d);
    d.fixed_source = zeros(cells);
    d.source = zeros(cells);
    d.flux = zeros(cells);
    d.face_x = zeros((long)n * n);
    d.face_y = zeros((long)n * n);
    d.face_z = zeros((long)n * n);
    make_source(n, cells, d.coords, d.fixed_source);
    return d;
}

static void free_domain(Domain *d) {
    double *all[] = {d->fixed_source, d->source, d->flux, d->face_x, d->face_y, d->face_z};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) {
        free(all[i]);
    }
    MPI_Comm_free(&d->comm);
}

static int argument(const char *text, int limit) {
    char *end = NULL;
    const long value = strtol(text, &end, 10);
    return end == text || *end != '\0' || value < 1 || value > limit ? 0 : (int)value;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int arguments = argc == 3 || argc == 4;
    const int n = arguments ? argument(argv[1], MAX_N) : 0;
    const int blocks = arguments ? argument(argv[2], 1000000) : 0;
    const int iterations = argc == 4 ? argument(argv[3], 1000000) : 1;
    if (n == 0 || blocks == 0 || iterations == 0 || (long)n * n * n > MAX_CELLS / blocks) {
        if (rank == 0) {
            fprintf(stderr,
                    "usage: sweep n blocks [iterations]\n"
                    "  n           cells of a block per dimension and rank, 1 to %d\n"
                    "  blocks      blocks a rank's columns are cut into, at least 1; n^3 blocks at most %ld\n"
                    "  iterations  sweeps over all directions, at least 1 (default 1)\n",
                    MAX_N, MAX_CELLS);
        }
        MPI_Finalize();
        return 2;
    }

    Domain d = make_domain(n, blocks);
    const long cells = cells_of(&d);
    double leakage = 0.0;
    for (int i = 0; i < iterations; ++i) {
        scatter(cells, d.fixed_source, d.flux, d.source);
        leakage = sweep_all(&d);
    }

    /* Nothing may be lost: what the last sweep's source emitted was stopped in a cell or has left the domain. */
    double local[3] = {sum_cells(cells, d.source), sum_cells(cells, d.flux), leakage}, global[3];
    MPI_Allreduce(local, global, 3, MPI_DOUBLE, MPI_SUM, d.comm);
    const double emitted = global[0];
    const double imbalance = fabs(emitted - SIGMA_TOTAL * global[1] - MU * WEIGHT * global[2]) / emitted;
    const int correct = imbalance < 1e-11;
    if (d.rank == 0) {
        printf("sweep: %d ranks (%d x %d), n = %d, blocks = %d, iterations = %d\n", d.ranks, d.dims[0], d.dims[1], n,
               blocks, iterations);
        printf("total flux: %.12e, imbalance %.1e\n", global[1], imbalance);
        printf("verification: %s\n", correct ? "passed" : "FAILED");
    }
    free_domain(&d);
    MPI_Finalize();
    return correct ? 0 : 1;
}
