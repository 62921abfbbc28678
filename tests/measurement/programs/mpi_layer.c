/* What the MPI layer must get right beside bytes; the argument says what to do. */
#include <mpi.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))
enum { THREADS = 4, ROUNDS = 200 };
static int rank, size, next, previous;

/* Each thread has a communicator of its own; handles of requests wander between threads. */
static MPI_Comm comms[THREADS];

static NOINLINE void talk(int me) {
    for (int i = 0; i < ROUNDS; i++) {
        int out[8] = {0}, in[8], flag = 0, sum;
        MPI_Request q[3];
        MPI_Irecv(in, 8, MPI_INT, previous, i, comms[me], &q[0]);
        MPI_Iallreduce(out, &sum, 1, MPI_INT, MPI_SUM, comms[me], &q[1]);
        MPI_Isend(out, 1 + i % 8, MPI_INT, next, i, comms[me], &q[2]);
        if (i % 2)
            MPI_Waitall(3, q, MPI_STATUSES_IGNORE);
        else
            while (!flag)
                MPI_Testall(3, q, &flag, MPI_STATUSES_IGNORE);
    }
}

static void *thread(void *number) {
    talk(*(int *)number);
    return NULL;
}

static NOINLINE void threads(void) {
    pthread_t handles[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&handles[i], NULL, thread, &numbers[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(handles[i], NULL);
}

/* An operation of the program's own is called by the library, and calls an operation itself. */
static NOINLINE void add(void *from, void *to, int *n, MPI_Datatype *type) {
    int flag;
    (void)type;
    MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    for (int i = 0; i < *n; i++)
        ((int *)to)[i] += ((int *)from)[i];
}

static NOINLINE void callback(void) {
    MPI_Op op;
    int one = 1, sum = 0;
    MPI_Op_create(add, 1, &op);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, op, MPI_COMM_WORLD);
    MPI_Op_free(&op);
}

/* An error handler that does not come back: what follows must be recorded as ever. */
static jmp_buf back;

static NOINLINE void on_error(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    longjmp(back, 1);
}

static NOINLINE void jump(void) {
    MPI_Errhandler handler;
    int value = 0, other;
    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    if (!setjmp(back))
        MPI_Send(&value, 1, MPI_INT, size + 5, 1, MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Send(&value, 1, MPI_INT, size + 5, 1, MPI_COMM_WORLD); /* fails: no bytes */
    MPI_Sendrecv(&value, 1, MPI_INT, next, 1, &other, 1, MPI_INT, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

#if MPI_VERSION >= 4
static int sessions(void) {
    MPI_Session session;
    MPI_Group world;
    MPI_Comm comm;
    int value = 1, sum;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &world);
    MPI_Comm_create_from_group(world, "buran", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
    MPI_Comm_free(&comm);
    MPI_Group_free(&world);
    MPI_Session_finalize(&session);
    return 0;
}
#else
static int sessions(void) { return 77; }
#endif

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int level;
    if (!strcmp(what, "sessions"))
        return sessions();
    MPI_Init_thread(&argc, &argv, strcmp(what, "threads") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size;
    previous = (rank + size - 1) % size;
    if (!strcmp(what, "threads")) {
        if (level < MPI_THREAD_MULTIPLE)
            return 77;
        threads();
    }
    if (!strcmp(what, "callback"))
        callback();
    if (!strcmp(what, "jump"))
        jump();
    MPI_Finalize();
    return 0;
}
