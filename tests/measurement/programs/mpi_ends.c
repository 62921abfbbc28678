/* How MPI programs end, and calls from several threads at a time. The argument chooses. */
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 3
#define TURNS 400

static int rank, size;

__attribute__((noinline)) static void exchange(int tag, MPI_Comm comm) {
    int out[4] = {tag, 0, 0, 0}, in[4];
    MPI_Request requests[2];
    MPI_Irecv(in, 4, MPI_INT, (rank + size - 1) % size, tag, comm, &requests[0]);
    MPI_Isend(out, 4, MPI_INT, (rank + 1) % size, tag, comm, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void *talk(void *argument) {
    for (int i = 0; i < TURNS; i++)
        exchange((int)(long)argument, MPI_COMM_WORLD);
    return NULL;
}

static void from_threads(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, talk, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(what, "threads")) {
        if (provided != MPI_THREAD_MULTIPLE)
            return 77;
        from_threads();
    } else if (!strcmp(what, "no finalize")) {
        _exit(0); /* some MPIs end the program in their own way where only exit() is called */
    } else if (!strcmp(what, "exit")) {
        exit(0);
    } else if (!strcmp(what, "abort")) {
        if (rank == 0)
            MPI_Abort(MPI_COMM_WORLD, 9);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (!strcmp(what, "error")) {
        MPI_Send(&rank, 1, MPI_INT, size + 10, 0, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
