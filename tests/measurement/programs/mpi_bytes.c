/* Every MPI operation with known counts; tests/measurement/test_mpi_bytes.py computes what must be recorded. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))
enum { N = 100, MOST = 64 };

static int rank, size, next, previous;
static int *a, *b;
static int counts[MOST], places[MOST];
static MPI_Comm world;

static NOINLINE void collectives(void) {
    MPI_Barrier(world);
    MPI_Bcast(a, N, MPI_INT, 0, world);
    MPI_Reduce(a, b, N, MPI_INT, MPI_SUM, 0, world);
    MPI_Allreduce(a, b, N, MPI_INT, MPI_SUM, world);
    MPI_Gather(a, N, MPI_INT, b, N, MPI_INT, 0, world);
    MPI_Gatherv(a, counts[rank], MPI_INT, b, counts, places, MPI_INT, 0, world);
    MPI_Scatter(a, N, MPI_INT, b, N, MPI_INT, 0, world);
    MPI_Scatterv(a, counts, places, MPI_INT, b, counts[rank], MPI_INT, 0, world);
    MPI_Allgather(a, N, MPI_INT, b, N, MPI_INT, world);
    MPI_Allgatherv(a, counts[rank], MPI_INT, b, counts, places, MPI_INT, world);
    MPI_Alltoall(a, N, MPI_INT, b, N, MPI_INT, world);
    /* Rank r sends r + q + 1 numbers to rank q: symmetric, so sends and receives have the same counts. */
    int both[MOST], at[MOST];
    for (int i = 0; i < size; i++) {
        both[i] = rank + i + 1;
        at[i] = 3 * size * i;
    }
    MPI_Alltoallv(a, both, at, MPI_INT, b, both, at, MPI_INT, world);
    MPI_Scan(a, b, N, MPI_DOUBLE, MPI_SUM, world);
    MPI_Exscan(a, b, N, MPI_DOUBLE, MPI_SUM, world);
    MPI_Reduce_scatter_block(a, b, N, MPI_INT, MPI_SUM, world);
    MPI_Reduce_scatter(a, b, counts, MPI_INT, MPI_SUM, world);
}

static NOINLINE void in_place(void) {
    int root = rank == 0;
    MPI_Reduce(root ? MPI_IN_PLACE : a, root ? b : NULL, N, MPI_INT, MPI_SUM, 0, world);
    MPI_Allreduce(MPI_IN_PLACE, b, N, MPI_INT, MPI_SUM, world);
    MPI_Gather(root ? MPI_IN_PLACE : a, N, MPI_INT, b, N, MPI_INT, 0, world);
    MPI_Gatherv(root ? MPI_IN_PLACE : a, counts[rank], MPI_INT, b, counts, places, MPI_INT, 0, world);
    MPI_Scatter(a, N, MPI_INT, root ? MPI_IN_PLACE : b, N, MPI_INT, 0, world);
    MPI_Scatterv(a, counts, places, MPI_INT, root ? MPI_IN_PLACE : b, counts[rank], MPI_INT, 0, world);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, N, MPI_INT, world);
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, counts, places, MPI_INT, world);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, N, MPI_INT, world);
    MPI_Scan(MPI_IN_PLACE, b, N, MPI_INT, MPI_SUM, world);
}

static NOINLINE void non_blocking(void) {
    MPI_Request requests[4];
    MPI_Ibarrier(world, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Ibcast(a, N, MPI_INT, 0, world, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Iallreduce(a, b, N, MPI_INT, MPI_SUM, world, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Ialltoall(a, N, MPI_INT, b, N, MPI_INT, world, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

static NOINLINE void point_to_point(void) {
    MPI_Request requests[2];
    MPI_Status status;
    /* The receiver has room for more than comes: what came counts. */
    MPI_Irecv(b, N * size, MPI_INT, previous, 1, world, &requests[0]);
    MPI_Send(a, N / 2, MPI_INT, next, 1, world);
    MPI_Wait(&requests[0], &status);
    MPI_Irecv(b, N, MPI_INT, MPI_ANY_SOURCE, 2, world, &requests[0]);
    MPI_Isend(a, N, MPI_INT, next, 2, world, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Sendrecv(a, 7, MPI_DOUBLE, next, 3, b, N, MPI_DOUBLE, previous, 3, world, MPI_STATUS_IGNORE);
    MPI_Sendrecv_replace(a, 5, MPI_INT, next, 4, previous, 4, world, &status);
    MPI_Isend(a, 9, MPI_INT, next, 5, world, &requests[1]);
    MPI_Recv(b, N, MPI_INT, previous, 5, world, MPI_STATUS_IGNORE);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    MPI_Send(a, N, MPI_INT, MPI_PROC_NULL, 6, world);
    MPI_Recv(b, N, MPI_INT, MPI_PROC_NULL, 6, world, MPI_STATUS_IGNORE);
}

static NOINLINE void completions(void) {
    MPI_Request requests[3];
    MPI_Status statuses[3];
    int index, done, flag = 0, indices[3], completed = 0;

    MPI_Irecv(b, N, MPI_INT, previous, 1, world, &requests[0]);
    requests[1] = MPI_REQUEST_NULL;
    MPI_Send(a, 10, MPI_INT, next, 1, world);
    MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);

    MPI_Irecv(b, N, MPI_INT, previous, 2, world, &requests[0]);
    MPI_Irecv(b + N, N, MPI_INT, previous, 3, world, &requests[1]);
    MPI_Send(a, 20, MPI_INT, next, 2, world);
    MPI_Send(a, 30, MPI_INT, next, 3, world);
    while (completed < 2) {
        MPI_Waitsome(2, requests, &done, indices, statuses);
        completed += done;
    }
    MPI_Irecv(b, N, MPI_INT, previous, 4, world, &requests[0]);
    MPI_Send(a, 40, MPI_INT, next, 4, world);
    while (!flag)
        MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
    MPI_Irecv(b, N, MPI_INT, previous, 5, world, &requests[0]);
    MPI_Send(a, 50, MPI_INT, next, 5, world);
    for (flag = 0; !flag;)
        MPI_Testall(1, requests, &flag, MPI_STATUSES_IGNORE);
    MPI_Irecv(b, N, MPI_INT, previous, 6, world, &requests[0]);
    MPI_Send(a, 60, MPI_INT, next, 6, world);
    for (flag = 0; !flag;)
        MPI_Testany(1, requests, &index, &flag, MPI_STATUS_IGNORE);
    MPI_Irecv(b, N, MPI_INT, previous, 99, world, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

static NOINLINE void persistent(void) {
    MPI_Request requests[2];
    MPI_Recv_init(b, N, MPI_INT, previous, 7, world, &requests[0]);
    MPI_Send_init(a, N / 4, MPI_INT, next, 7, world, &requests[1]);
    for (int i = 0; i < 3; i++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Start(&requests[0]);
    MPI_Start(&requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

/* Many open receives at once: the table of requests grows and forgets. */
static NOINLINE void many_requests(void) {
    enum { OPEN = 700 };
    static MPI_Request requests[OPEN];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < OPEN; i++)
            MPI_Irecv(b + i % N, 1, MPI_INT, previous, 100 + i, world, &requests[i]);
        for (int i = 0; i < OPEN; i++)
            MPI_Send(a, 1, MPI_INT, next, 100 + i, world);
        MPI_Waitall(OPEN, requests, MPI_STATUSES_IGNORE);
    }
}

static NOINLINE void communicators(void) {
    MPI_Comm half, copy, grid;
    int dims[1] = {0}, periods[1] = {1};
    MPI_Comm_split(world, rank % 2, rank, &half);
    MPI_Allreduce(a, b, 1, MPI_DOUBLE, MPI_SUM, half);
    MPI_Allreduce(a, b, 1, MPI_DOUBLE, MPI_SUM, world);
    MPI_Comm_dup(half, &copy);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&half);
    MPI_Dims_create(size, 1, dims);
    MPI_Cart_create(world, 1, dims, periods, 0, &grid);
    MPI_Comm_free(&grid);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    world = MPI_COMM_WORLD;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    next = (rank + 1) % size;
    previous = (rank + size - 1) % size;
    a = calloc((size_t)(N * size * 4), sizeof *a);
    b = calloc((size_t)(N * size * 4), sizeof *b);
    for (int i = 0; i < size; i++) {
        counts[i] = i + 1;
        places[i] = 10 * i;
    }
    const char *how = argc > 1 ? argv[1] : "";
    if (!strcmp(how, "leave") && rank == size - 1)
        exit(0); /* without MPI_Finalize */
    if (!strcmp(how, "leave"))
        MPI_Abort(world, 3);
    collectives();
    in_place();
    non_blocking();
    point_to_point();
    completions();
    persistent();
    many_requests();
    communicators();
    MPI_Finalize();
    free(a);
    free(b);
    return 0;
}
