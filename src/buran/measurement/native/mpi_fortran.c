/* MPI calls from Fortran: mpif.h, `use mpi` and `use mpi_f08`.
 *
 * The operations of mpif.h and `use mpi` are called mpi_send_ and so on. Those of mpi_f08 are called mpi_send_f08_, or
 * mpi_send_f08ts_ if they take a buffer and that is passed with a description of its shape.
 *
 *     Open MPI   all of them call PMPI, past mpi.c. Here they are defined under both names, which take the same
 *                arguments, as buffers are passed by address in both.
 *     MPICH      mpif.h and `use mpi` call the C operations by their own names, so that mpi.c sees them, and so do
 *                the operations of mpi_f08 with a buffer: doing something about these would count twice. Those of
 *                mpi_f08 without a buffer call PMPI, and are defined here.
 *
 *     SimGrid    has no mpi_f08; all others call its own C operations, past mpi.c, and are defined here as for Open MPI.
 *
 * Each converts its arguments and calls the C operation of mpi.c. Handles and integers are one Fortran INTEGER, logicals
 * are 0 or 1; `ierror` may be missing in mpi_f08.
 */
#include <mpi.h>

#if defined(OPEN_MPI) || defined(BURAN_SIMULATED)
#define GOES_PAST_MPI_C
#endif

#if defined(GOES_PAST_MPI_C) || defined(MPICH)

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(MPI_Fint) == sizeof(int), "an MPI whose INTEGERs are not as large as int is not supported");

/* ---- constants that are addresses, there only if the program is Fortran */

static inline int is(const void *argument, const char *constant) { return constant && argument == constant; }

#if defined(GOES_PAST_MPI_C)
#if defined(OPEN_MPI)
#define CONSTANT(NAME) NAME __asm__("mpi_fortran_" #NAME "_") __attribute__((weak))
#else
#define CONSTANT(NAME) NAME __asm__("mpi_" #NAME "_") __attribute__((weak))
#endif
extern char CONSTANT(bottom);
extern char CONSTANT(in_place);
extern char CONSTANT(status_ignore);
extern char CONSTANT(statuses_ignore);
extern char CONSTANT(unweighted);
extern char CONSTANT(weights_empty);

static inline void *address(void *buffer) {
    if (is(buffer, &in_place))
        return MPI_IN_PLACE;
    return is(buffer, &bottom) ? MPI_BOTTOM : buffer;
}

static inline int is_ignored(const MPI_Fint *status) {
    return is(status, &status_ignore) || is(status, &statuses_ignore);
}
#else
/* Under other names, because mpi.h has them only if the MPI was built with mpi_f08. */
extern char status_ignore __asm__("MPIR_F08_MPI_STATUS_IGNORE_OBJ") __attribute__((weak));
extern char statuses_ignore __asm__("MPIR_F08_MPI_STATUSES_IGNORE_OBJ") __attribute__((weak));
extern char unweighted __asm__("__mpi_f08_link_constants_MOD_mpi_unweighted") __attribute__((weak));
extern char weights_empty __asm__("__mpi_f08_link_constants_MOD_mpi_weights_empty") __attribute__((weak));

static inline int is_ignored(const MPI_Fint *status) {
    return is(status, &status_ignore) || is(status, &statuses_ignore);
}
#endif

static inline int *weights(int *values) {
    if (is(values, &unweighted))
        return MPI_UNWEIGHTED;
    return is(values, &weights_empty) ? MPI_WEIGHTS_EMPTY : values;
}

/* ---- arguments; the names are short because the tables below are long */

#define COMM(x) PMPI_Comm_f2c(*(x))
#define TYPE(x) PMPI_Type_f2c(*(x))
#define OP(x) PMPI_Op_f2c(*(x))
#define WIN(x) PMPI_Win_f2c(*(x))
#define GROUP(x) PMPI_Group_f2c(*(x))
#define INFO(x) PMPI_Info_f2c(*(x))

#define STATUS_INTS ((int)(sizeof(MPI_Status) / sizeof(MPI_Fint)))

#if defined(BURAN_SIMULATED) /* there, PMPI_Status_c2f ends the program; a Fortran status is a C one */
static inline void convert_status(MPI_Status *from, MPI_Fint *to) { memcpy(to, from, sizeof *from); }
#else
static inline void convert_status(MPI_Status *from, MPI_Fint *to) { PMPI_Status_c2f(from, to); }
#endif

static inline void give_status(MPI_Status *from, MPI_Fint *to) {
    if (from != MPI_STATUS_IGNORE)
        convert_status(from, to);
}

static inline void finish(int result, MPI_Fint *error) {
    if (error)
        *error = result;
}

/* One operation. */
#if defined(GOES_PAST_MPI_C)
#define ENTRY(NAME, PARAMETERS)                                                 \
    void mpi_##NAME##_ PARAMETERS;                                              \
    void mpi_##NAME##_f08_ PARAMETERS __attribute__((alias("mpi_" #NAME "_"))); \
    void mpi_##NAME##_ PARAMETERS
#else
#define ENTRY(NAME, PARAMETERS)        \
    void mpi_##NAME##_f08_ PARAMETERS; \
    void mpi_##NAME##_f08_ PARAMETERS
#endif

/* An operation whose arguments can all be converted in place. */
#define DIRECT(NAME, CNAME, PARAMETERS, ARGUMENTS)      \
    ENTRY(NAME, PARAMETERS) {                           \
        finish(MPI_##CNAME ARGUMENTS, error);           \
    }

/* An operation that makes, changes or frees one handle; `handle` is the Fortran one. */
#define HANDLE(NAME, CNAME, KIND, PARAMETERS, ARGUMENTS) \
    ENTRY(NAME, PARAMETERS) {                            \
        MPI_##KIND made = PMPI_##KIND##_f2c(*handle);    \
        finish(MPI_##CNAME ARGUMENTS, error);            \
        *handle = PMPI_##KIND##_c2f(made);               \
    }

/* A new handle: what it was before may be garbage. */
#define MAKES(NAME, CNAME, KIND, PARAMETERS, ARGUMENTS) \
    ENTRY(NAME, PARAMETERS) {                           \
        MPI_##KIND made;                                \
        int result = MPI_##CNAME ARGUMENTS;             \
        if (result == MPI_SUCCESS)                      \
            *handle = PMPI_##KIND##_c2f(made);          \
        finish(result, error);                          \
    }

/* An operation with a status. */
#define STATUS(NAME, CNAME, PARAMETERS, ARGUMENTS)                        \
    ENTRY(NAME, PARAMETERS) {                                             \
        MPI_Status own, *used = is_ignored(status) ? MPI_STATUS_IGNORE : &own; \
        int result = MPI_##CNAME ARGUMENTS;                               \
        if (result == MPI_SUCCESS)                                        \
            give_status(used, status);                                    \
        finish(result, error);                                            \
    }

#define F MPI_Fint *

/* ---- beginning and end */

#if defined(BURAN_SIMULATED)
extern void smpi_init_fortran_types(void); /* of libsimgrid: what Fortran's handles of data types stand for */
#else
static inline void smpi_init_fortran_types(void) {}
#endif

ENTRY(init, (F error)) {
    smpi_init_fortran_types();
    finish(MPI_Init(NULL, NULL), error);
}

ENTRY(init_thread, (F required, F provided, F error)) {
    smpi_init_fortran_types();
    finish(MPI_Init_thread(NULL, NULL, *required, provided), error);
}

ENTRY(finalize, (F error)) { finish(MPI_Finalize(), error); }

DIRECT(abort, Abort, (F comm, F code, F error), (COMM(comm), *code))

/* ---- point to point */

STATUS(probe, Probe, (F from, F tag, F comm, F status, F error), (*from, *tag, COMM(comm), used))

ENTRY(iprobe, (F from, F tag, F comm, F flag, F status, F error)) {
    MPI_Status own, *used = is_ignored(status) ? MPI_STATUS_IGNORE : &own;
    int found = 0, result = MPI_Iprobe(*from, *tag, COMM(comm), &found, used);
    *flag = found;
    if (found)
        give_status(used, status);
    finish(result, error);
}

HANDLE(start, Start, Request, (F handle, F error), (&made))
HANDLE(request_free, Request_free, Request, (F handle, F error), (&made))
HANDLE(cancel, Cancel, Request, (F handle, F error), (&made))

/* ---- completion: arrays of requests and statuses */

static void *room(int count, size_t size) {
    void *memory = malloc((count > 0 ? (size_t)count : 1) * size);
    if (!memory)
        abort();
    return memory;
}

static MPI_Request *requests_of(int count, const MPI_Fint *handles) {
    MPI_Request *requests = room(count, sizeof *requests);
    for (int i = 0; i < count; i++)
        requests[i] = PMPI_Request_f2c(handles[i]);
    return requests;
}

static void give_back(int count, MPI_Request *requests, MPI_Fint *handles) {
    for (int i = 0; i < count; i++)
        handles[i] = PMPI_Request_c2f(requests[i]);
    free(requests);
}

static MPI_Status *room_for_statuses(int count, const MPI_Fint *statuses) {
    return is_ignored(statuses) ? MPI_STATUSES_IGNORE : room(count, sizeof(MPI_Status));
}

/* The first `count` statuses; those that the operation left alone stay what they were. */
static void give_back_statuses(int count, MPI_Status *from, MPI_Fint *statuses) {
    if (from == MPI_STATUSES_IGNORE)
        return;
    for (int i = 0; i < count; i++)
        convert_status(&from[i], &statuses[i * STATUS_INTS]);
    free(from);
}

ENTRY(wait, (F request, F status, F error)) {
    MPI_Status own, *used = is_ignored(status) ? MPI_STATUS_IGNORE : &own;
    MPI_Request handle = PMPI_Request_f2c(*request);
    int result = MPI_Wait(&handle, used);
    *request = PMPI_Request_c2f(handle);
    if (result == MPI_SUCCESS)
        give_status(used, status);
    finish(result, error);
}

ENTRY(test, (F request, F flag, F status, F error)) {
    MPI_Status own, *used = is_ignored(status) ? MPI_STATUS_IGNORE : &own;
    MPI_Request handle = PMPI_Request_f2c(*request);
    int done = 0, result = MPI_Test(&handle, &done, used);
    *request = PMPI_Request_c2f(handle);
    *flag = done;
    if (done)
        give_status(used, status);
    finish(result, error);
}

ENTRY(request_get_status, (F request, F flag, F status, F error)) {
    MPI_Status own, *used = is_ignored(status) ? MPI_STATUS_IGNORE : &own;
    int done = 0, result = MPI_Request_get_status(PMPI_Request_f2c(*request), &done, used);
    *flag = done;
    if (done)
        give_status(used, status);
    finish(result, error);
}

ENTRY(waitall, (F count, F handles, F statuses, F error)) {
    MPI_Request *requests = requests_of(*count, handles);
    MPI_Status *used = room_for_statuses(*count, statuses);
    int result = MPI_Waitall(*count, requests, used);
    give_back(*count, requests, handles);
    give_back_statuses(*count, used, statuses);
    finish(result, error);
}

ENTRY(testall, (F count, F handles, F flag, F statuses, F error)) {
    MPI_Request *requests = requests_of(*count, handles);
    MPI_Status *used = room_for_statuses(*count, statuses);
    int done = 0, result = MPI_Testall(*count, requests, &done, used);
    *flag = done;
    give_back(*count, requests, handles);
    give_back_statuses(done ? *count : 0, used, statuses);
    finish(result, error);
}

/* Positions count from 1 in Fortran. */
static inline int position(int index) { return index == MPI_UNDEFINED ? index : index + 1; }

ENTRY(waitany, (F count, F handles, F index, F status, F error)) {
    MPI_Status own, *used = is_ignored(status) ? MPI_STATUS_IGNORE : &own;
    MPI_Request *requests = requests_of(*count, handles);
    int which = MPI_UNDEFINED, result = MPI_Waitany(*count, requests, &which, used);
    *index = position(which);
    give_back(*count, requests, handles);
    if (result == MPI_SUCCESS)
        give_status(used, status);
    finish(result, error);
}

ENTRY(testany, (F count, F handles, F index, F flag, F status, F error)) {
    MPI_Status own, *used = is_ignored(status) ? MPI_STATUS_IGNORE : &own;
    MPI_Request *requests = requests_of(*count, handles);
    int which = MPI_UNDEFINED, done = 0, result = MPI_Testany(*count, requests, &which, &done, used);
    *index = position(which);
    *flag = done;
    give_back(*count, requests, handles);
    if (done)
        give_status(used, status);
    finish(result, error);
}

#define COMPLETE_SOME(NAME, CNAME)                                                \
    ENTRY(NAME, (F count, F handles, F done, F indices, F statuses, F error)) {   \
        MPI_Request *requests = requests_of(*count, handles);                     \
        MPI_Status *used = room_for_statuses(*count, statuses);                   \
        int some = 0, result = MPI_##CNAME(*count, requests, &some, indices, used); \
        *done = some;                                                             \
        if (some == MPI_UNDEFINED)                                                \
            some = 0;                                                             \
        for (int i = 0; i < some; i++)                                            \
            indices[i] = position(indices[i]);                                    \
        give_back(*count, requests, handles);                                     \
        give_back_statuses(some, used, statuses);                                 \
        finish(result, error);                                                    \
    }
COMPLETE_SOME(waitsome, Waitsome)
COMPLETE_SOME(testsome, Testsome)

ENTRY(startall, (F count, F handles, F error)) {
    MPI_Request *requests = requests_of(*count, handles);
    int result = MPI_Startall(*count, requests);
    give_back(*count, requests, handles);
    finish(result, error);
}

/* ---- collectives: the non-blocking form always comes along */

#define UNPACK(...) __VA_ARGS__

#define COLLECTIVE(NAME, CNAME, PARAMETERS, ARGUMENTS)                                             \
    DIRECT(NAME, CNAME, (UNPACK PARAMETERS, F error), ARGUMENTS)                                   \
    MAKES(i##NAME, I##NAME, Request, (UNPACK PARAMETERS, F handle, F error), (UNPACK ARGUMENTS, &made))

COLLECTIVE(barrier, Barrier, (F comm), (COMM(comm)))

/* ---- communicators */

MAKES(comm_create, Comm_create, Comm, (F comm, F group, F handle, F error), (COMM(comm), GROUP(group), &made))
MAKES(comm_create_group, Comm_create_group, Comm, (F comm, F group, F tag, F handle, F error),
      (COMM(comm), GROUP(group), *tag, &made))
MAKES(comm_dup, Comm_dup, Comm, (F comm, F handle, F error), (COMM(comm), &made))
MAKES(comm_split, Comm_split, Comm, (F comm, F color, F key, F handle, F error), (COMM(comm), *color, *key, &made))
MAKES(comm_split_type, Comm_split_type, Comm, (F comm, F type, F key, F info, F handle, F error),
      (COMM(comm), *type, *key, INFO(info), &made))
MAKES(cart_create, Cart_create, Comm, (F comm, F n, F dims, F periods, F reorder, F handle, F error),
      (COMM(comm), *n, dims, periods, *reorder, &made))
MAKES(cart_sub, Cart_sub, Comm, (F comm, F remains, F handle, F error), (COMM(comm), remains, &made))
MAKES(comm_dup_with_info, Comm_dup_with_info, Comm, (F comm, F info, F handle, F error),
      (COMM(comm), INFO(info), &made))

HANDLE(comm_free, Comm_free, Comm, (F handle, F error), (&made))
HANDLE(comm_disconnect, Comm_disconnect, Comm, (F handle, F error), (&made))

/* ---- one-sided: sizes and displacements are of the kind of an address */

#define A MPI_Aint *

MAKES(win_allocate, Win_allocate, Win, (A size, F unit, F info, F comm, void *base, F handle, F error),
      (*size, *unit, INFO(info), COMM(comm), base, &made))
HANDLE(win_free, Win_free, Win, (F handle, F error), (&made))
DIRECT(win_fence, Win_fence, (F assertion, F win, F error), (*assertion, WIN(win)))
DIRECT(win_lock, Win_lock, (F type, F rank, F assertion, F win, F error), (*type, *rank, *assertion, WIN(win)))
DIRECT(win_unlock, Win_unlock, (F rank, F win, F error), (*rank, WIN(win)))
DIRECT(win_lock_all, Win_lock_all, (F assertion, F win, F error), (*assertion, WIN(win)))
DIRECT(win_unlock_all, Win_unlock_all, (F win, F error), (WIN(win)))
DIRECT(win_flush, Win_flush, (F rank, F win, F error), (*rank, WIN(win)))
DIRECT(win_flush_all, Win_flush_all, (F win, F error), (WIN(win)))
DIRECT(win_flush_local, Win_flush_local, (F rank, F win, F error), (*rank, WIN(win)))
DIRECT(win_flush_local_all, Win_flush_local_all, (F win, F error), (WIN(win)))
DIRECT(win_post, Win_post, (F group, F assertion, F win, F error), (GROUP(group), *assertion, WIN(win)))
DIRECT(win_start, Win_start, (F group, F assertion, F win, F error), (GROUP(group), *assertion, WIN(win)))
DIRECT(win_complete, Win_complete, (F win, F error), (WIN(win)))
DIRECT(win_wait, Win_wait, (F win, F error), (WIN(win)))
MAKES(win_create_dynamic, Win_create_dynamic, Win, (F info, F comm, F handle, F error),
      (INFO(info), COMM(comm), &made))
MAKES(win_allocate_shared, Win_allocate_shared, Win, (A size, F unit, F info, F comm, void *base, F handle, F error),
      (*size, *unit, INFO(info), COMM(comm), base, &made))

/* ---- what SimGrid lacks: a program that calls it is refused by its symbols */

#if !defined(BURAN_SIMULATED)

ENTRY(mprobe, (F from, F tag, F comm, F message, F status, F error)) {
    MPI_Status own, *used = is_ignored(status) ? MPI_STATUS_IGNORE : &own;
    MPI_Message found;
    int result = MPI_Mprobe(*from, *tag, COMM(comm), &found, used);
    if (result == MPI_SUCCESS) {
        *message = PMPI_Message_c2f(found);
        give_status(used, status);
    }
    finish(result, error);
}

ENTRY(improbe, (F from, F tag, F comm, F flag, F message, F status, F error)) {
    MPI_Status own, *used = is_ignored(status) ? MPI_STATUS_IGNORE : &own;
    MPI_Message found;
    int there = 0, result = MPI_Improbe(*from, *tag, COMM(comm), &there, &found, used);
    *flag = there;
    if (there && result == MPI_SUCCESS) {
        *message = PMPI_Message_c2f(found);
        give_status(used, status);
    }
    finish(result, error);
}

MAKES(intercomm_create, Intercomm_create, Comm,
      (F comm, F leader, F peer, F remote_leader, F tag, F handle, F error),
      (COMM(comm), *leader, COMM(peer), *remote_leader, *tag, &made))
MAKES(intercomm_merge, Intercomm_merge, Comm, (F comm, F high, F handle, F error), (COMM(comm), *high, &made))
MAKES(graph_create, Graph_create, Comm, (F comm, F n, F index, F edges, F reorder, F handle, F error),
      (COMM(comm), *n, index, edges, *reorder, &made))
MAKES(dist_graph_create, Dist_graph_create, Comm,
      (F comm, F n, F sources, F degrees, F targets, F values, F info, F reorder, F handle, F error),
      (COMM(comm), *n, sources, degrees, targets, weights(values), INFO(info), *reorder, &made))
MAKES(dist_graph_create_adjacent, Dist_graph_create_adjacent, Comm,
      (F comm, F in, F sources, F in_values, F out, F targets, F out_values, F info, F reorder, F handle, F error),
      (COMM(comm), *in, sources, weights(in_values), *out, targets, weights(out_values), INFO(info), *reorder, &made))

/* The new communicator exists at once, though it may not be used before the request completes. */
ENTRY(comm_idup, (F comm, F copy, F request, F error)) {
    MPI_Comm made;
    MPI_Request handle;
    int result = MPI_Comm_idup(COMM(comm), &made, &handle);
    if (result == MPI_SUCCESS) {
        *copy = PMPI_Comm_c2f(made);
        *request = PMPI_Request_c2f(handle);
    }
    finish(result, error);
}

DIRECT(win_sync, Win_sync, (F win, F error), (WIN(win)))

ENTRY(win_test, (F win, F flag, F error)) {
    int done = 0, result = MPI_Win_test(WIN(win), &done);
    *flag = done;
    finish(result, error);
}

#endif

/* ---- operations with buffers */

#if defined(GOES_PAST_MPI_C)

#define SEND(NAME, CNAME)                                                            \
    DIRECT(NAME, CNAME, (void *buf, F n, F type, F to, F tag, F comm, F error),      \
           (address(buf), *n, TYPE(type), *to, *tag, COMM(comm)))
SEND(send, Send)
SEND(ssend, Ssend)
SEND(bsend, Bsend)
SEND(rsend, Rsend)

#define ISEND(NAME, CNAME)                                                                          \
    MAKES(NAME, CNAME, Request, (void *buf, F n, F type, F to, F tag, F comm, F handle, F error),   \
          (address(buf), *n, TYPE(type), *to, *tag, COMM(comm), &made))
ISEND(isend, Isend)
ISEND(issend, Issend)
ISEND(ibsend, Ibsend)
ISEND(irsend, Irsend)
ISEND(irecv, Irecv)
ISEND(send_init, Send_init)
ISEND(ssend_init, Ssend_init)
ISEND(bsend_init, Bsend_init)
ISEND(rsend_init, Rsend_init)
ISEND(recv_init, Recv_init)

STATUS(recv, Recv, (void *buf, F n, F type, F from, F tag, F comm, F status, F error),
       (address(buf), *n, TYPE(type), *from, *tag, COMM(comm), used))
STATUS(sendrecv, Sendrecv,
       (void *from, F n, F type, F to, F tag, void *into, F in_n, F in_type, F source, F in_tag, F comm, F status,
        F error),
       (address(from), *n, TYPE(type), *to, *tag, address(into), *in_n, TYPE(in_type), *source, *in_tag, COMM(comm),
        used))
STATUS(sendrecv_replace, Sendrecv_replace,
       (void *buf, F n, F type, F to, F tag, F source, F in_tag, F comm, F status, F error),
       (address(buf), *n, TYPE(type), *to, *tag, *source, *in_tag, COMM(comm), used))

COLLECTIVE(bcast, Bcast, (void *buf, F n, F type, F root, F comm), (address(buf), *n, TYPE(type), *root, COMM(comm)))
COLLECTIVE(reduce, Reduce, (void *from, void *to, F n, F type, F op, F root, F comm),
           (address(from), address(to), *n, TYPE(type), OP(op), *root, COMM(comm)))
COLLECTIVE(allreduce, Allreduce, (void *from, void *to, F n, F type, F op, F comm),
           (address(from), address(to), *n, TYPE(type), OP(op), COMM(comm)))
COLLECTIVE(reduce_scatter_block, Reduce_scatter_block, (void *from, void *to, F n, F type, F op, F comm),
           (address(from), address(to), *n, TYPE(type), OP(op), COMM(comm)))
COLLECTIVE(reduce_scatter, Reduce_scatter, (void *from, void *to, F n, F type, F op, F comm),
           (address(from), address(to), n, TYPE(type), OP(op), COMM(comm)))
COLLECTIVE(scan, Scan, (void *from, void *to, F n, F type, F op, F comm),
           (address(from), address(to), *n, TYPE(type), OP(op), COMM(comm)))
COLLECTIVE(exscan, Exscan, (void *from, void *to, F n, F type, F op, F comm),
           (address(from), address(to), *n, TYPE(type), OP(op), COMM(comm)))
COLLECTIVE(gather, Gather, (void *from, F n, F type, void *to, F to_n, F to_type, F root, F comm),
           (address(from), *n, TYPE(type), address(to), *to_n, TYPE(to_type), *root, COMM(comm)))
COLLECTIVE(gatherv, Gatherv, (void *from, F n, F type, void *to, F to_n, F at, F to_type, F root, F comm),
           (address(from), *n, TYPE(type), address(to), to_n, at, TYPE(to_type), *root, COMM(comm)))
COLLECTIVE(scatter, Scatter, (void *from, F n, F type, void *to, F to_n, F to_type, F root, F comm),
           (address(from), *n, TYPE(type), address(to), *to_n, TYPE(to_type), *root, COMM(comm)))
COLLECTIVE(scatterv, Scatterv, (void *from, F n, F at, F type, void *to, F to_n, F to_type, F root, F comm),
           (address(from), n, at, TYPE(type), address(to), *to_n, TYPE(to_type), *root, COMM(comm)))
COLLECTIVE(allgather, Allgather, (void *from, F n, F type, void *to, F to_n, F to_type, F comm),
           (address(from), *n, TYPE(type), address(to), *to_n, TYPE(to_type), COMM(comm)))
COLLECTIVE(allgatherv, Allgatherv, (void *from, F n, F type, void *to, F to_n, F at, F to_type, F comm),
           (address(from), *n, TYPE(type), address(to), to_n, at, TYPE(to_type), COMM(comm)))
COLLECTIVE(alltoall, Alltoall, (void *from, F n, F type, void *to, F to_n, F to_type, F comm),
           (address(from), *n, TYPE(type), address(to), *to_n, TYPE(to_type), COMM(comm)))
COLLECTIVE(alltoallv, Alltoallv, (void *from, F n, F at, F type, void *to, F to_n, F to_at, F to_type, F comm),
           (address(from), n, at, TYPE(type), address(to), to_n, to_at, TYPE(to_type), COMM(comm)))

MAKES(win_create, Win_create, Win, (void *base, A size, F unit, F info, F comm, F handle, F error),
      (address(base), *size, *unit, INFO(info), COMM(comm), &made))
DIRECT(put, Put, (void *from, F n, F type, F rank, A at, F to_n, F to_type, F win, F error),
       (address(from), *n, TYPE(type), *rank, *at, *to_n, TYPE(to_type), WIN(win)))
DIRECT(get, Get, (void *to, F n, F type, F rank, A at, F from_n, F from_type, F win, F error),
       (address(to), *n, TYPE(type), *rank, *at, *from_n, TYPE(from_type), WIN(win)))
DIRECT(accumulate, Accumulate, (void *from, F n, F type, F rank, A at, F to_n, F to_type, F op, F win, F error),
       (address(from), *n, TYPE(type), *rank, *at, *to_n, TYPE(to_type), OP(op), WIN(win)))
DIRECT(win_attach, Win_attach, (F win, void *base, A size, F error), (WIN(win), address(base), *size))
DIRECT(win_detach, Win_detach, (F win, void *base, F error), (WIN(win), address(base)))
DIRECT(get_accumulate, Get_accumulate,
       (void *from, F n, F type, void *to, F got_n, F got_type, F rank, A at, F to_n, F to_type, F op, F win, F error),
       (address(from), *n, TYPE(type), address(to), *got_n, TYPE(got_type), *rank, *at, *to_n, TYPE(to_type), OP(op),
        WIN(win)))
DIRECT(fetch_and_op, Fetch_and_op, (void *from, void *to, F type, F rank, A at, F op, F win, F error),
       (address(from), address(to), TYPE(type), *rank, *at, OP(op), WIN(win)))
DIRECT(compare_and_swap, Compare_and_swap,
       (void *from, void *expected, void *to, F type, F rank, A at, F win, F error),
       (address(from), address(expected), address(to), TYPE(type), *rank, *at, WIN(win)))
MAKES(rput, Rput, Request,
      (void *from, F n, F type, F rank, A at, F to_n, F to_type, F win, F handle, F error),
      (address(from), *n, TYPE(type), *rank, *at, *to_n, TYPE(to_type), WIN(win), &made))
MAKES(rget, Rget, Request,
      (void *to, F n, F type, F rank, A at, F from_n, F from_type, F win, F handle, F error),
      (address(to), *n, TYPE(type), *rank, *at, *from_n, TYPE(from_type), WIN(win), &made))
MAKES(raccumulate, Raccumulate, Request,
      (void *from, F n, F type, F rank, A at, F to_n, F to_type, F op, F win, F handle, F error),
      (address(from), *n, TYPE(type), *rank, *at, *to_n, TYPE(to_type), OP(op), WIN(win), &made))
MAKES(rget_accumulate, Rget_accumulate, Request,
      (void *from, F n, F type, void *to, F got_n, F got_type, F rank, A at, F to_n, F to_type, F op, F win, F handle,
       F error),
      (address(from), *n, TYPE(type), address(to), *got_n, TYPE(got_type), *rank, *at, *to_n, TYPE(to_type), OP(op),
       WIN(win), &made))

/* The same windows, for programs that declare the address as a C pointer. */
#define ALSO(NAME, OTHER, PARAMETERS) void mpi_##OTHER##_ PARAMETERS __attribute__((alias("mpi_" #NAME "_")))
ALSO(win_allocate, win_allocate_cptr, (A size, F unit, F info, F comm, void *base, F handle, F error));
ALSO(win_allocate_shared, win_allocate_shared_cptr, (A size, F unit, F info, F comm, void *base, F handle, F error));

/* ---- collectives with a type for each process */

static MPI_Datatype *types_of(int count, const MPI_Fint *handles) {
    MPI_Datatype *types = room(count, sizeof *types);
    for (int i = 0; i < count; i++)
        types[i] = PMPI_Type_f2c(handles[i]);
    return types;
}

/* Types of the sends are not looked at in place, and may be anything. */
typedef struct exchange {
    MPI_Datatype *types, *to_types;
} exchange;

static exchange types_for(MPI_Comm comm, const void *from, const MPI_Fint *types, const MPI_Fint *to_types) {
    int inter = 0, size = 0;
    PMPI_Comm_test_inter(comm, &inter);
    if (inter)
        PMPI_Comm_remote_size(comm, &size);
    else
        PMPI_Comm_size(comm, &size);
    return (exchange){.types = from == MPI_IN_PLACE ? NULL : types_of(size, types),
                      .to_types = types_of(size, to_types)};
}

static void drop(exchange this) {
    free(this.types);
    free(this.to_types);
}

ENTRY(alltoallw, (void *from, F n, F at, F types, void *to, F to_n, F to_at, F to_types, F comm, F error)) {
    exchange each = types_for(COMM(comm), address(from), types, to_types);
    finish(MPI_Alltoallw(address(from), n, at, each.types, address(to), to_n, to_at, each.to_types, COMM(comm)), error);
    drop(each);
}

ENTRY(ialltoallw,
      (void *from, F n, F at, F types, void *to, F to_n, F to_at, F to_types, F comm, F request, F error)) {
    exchange each = types_for(COMM(comm), address(from), types, to_types);
    MPI_Request handle;
    int result = MPI_Ialltoallw(address(from), n, at, each.types, address(to), to_n, to_at, each.to_types, COMM(comm),
                                &handle);
    if (result == MPI_SUCCESS)
        *request = PMPI_Request_c2f(handle);
    drop(each); /* as Open MPI's own library does */
    finish(result, error);
}

/* ---- with buffers, what SimGrid lacks */

#if !defined(BURAN_SIMULATED)

ENTRY(mrecv, (void *buf, F n, F type, F message, F status, F error)) {
    MPI_Status own, *used = is_ignored(status) ? MPI_STATUS_IGNORE : &own;
    MPI_Message taken = PMPI_Message_f2c(*message);
    int result = MPI_Mrecv(address(buf), *n, TYPE(type), &taken, used);
    *message = PMPI_Message_c2f(taken);
    if (result == MPI_SUCCESS)
        give_status(used, status);
    finish(result, error);
}

ENTRY(imrecv, (void *buf, F n, F type, F message, F request, F error)) {
    MPI_Message taken = PMPI_Message_f2c(*message);
    MPI_Request handle;
    int result = MPI_Imrecv(address(buf), *n, TYPE(type), &taken, &handle);
    if (result == MPI_SUCCESS) {
        *message = PMPI_Message_c2f(taken);
        *request = PMPI_Request_c2f(handle);
    }
    finish(result, error);
}

#define NEIGHBOR(NAME, PARAMETERS, ARGUMENTS)                                                      \
    DIRECT(neighbor_##NAME, Neighbor_##NAME, (UNPACK PARAMETERS, F error), ARGUMENTS)              \
    MAKES(ineighbor_##NAME, Ineighbor_##NAME, Request, (UNPACK PARAMETERS, F handle, F error),     \
          (UNPACK ARGUMENTS, &made))

NEIGHBOR(allgather, (void *from, F n, F type, void *to, F to_n, F to_type, F comm),
         (address(from), *n, TYPE(type), address(to), *to_n, TYPE(to_type), COMM(comm)))
NEIGHBOR(allgatherv, (void *from, F n, F type, void *to, F to_n, F at, F to_type, F comm),
         (address(from), *n, TYPE(type), address(to), to_n, at, TYPE(to_type), COMM(comm)))
NEIGHBOR(alltoall, (void *from, F n, F type, void *to, F to_n, F to_type, F comm),
         (address(from), *n, TYPE(type), address(to), *to_n, TYPE(to_type), COMM(comm)))
NEIGHBOR(alltoallv, (void *from, F n, F at, F type, void *to, F to_n, F to_at, F to_type, F comm),
         (address(from), n, at, TYPE(type), address(to), to_n, to_at, TYPE(to_type), COMM(comm)))

/* How many neighbours this process receives from and sends to. */
static void count_neighbors(MPI_Comm comm, int *in, int *out) {
    int topology = MPI_UNDEFINED, weighted, rank;
    *in = *out = 0;
    PMPI_Topo_test(comm, &topology);
    if (topology == MPI_CART) {
        PMPI_Cartdim_get(comm, in);
        *in *= 2;
        *out = *in;
    } else if (topology == MPI_GRAPH) {
        PMPI_Comm_rank(comm, &rank);
        PMPI_Graph_neighbors_count(comm, rank, in);
        *out = *in;
    } else if (topology == MPI_DIST_GRAPH) {
        PMPI_Dist_graph_neighbors_count(comm, in, out, &weighted);
    }
}

static exchange types_for_neighbors(MPI_Comm comm, const MPI_Fint *types, const MPI_Fint *to_types) {
    int in, out;
    count_neighbors(comm, &in, &out);
    return (exchange){.types = types_of(out, types), .to_types = types_of(in, to_types)};
}

ENTRY(neighbor_alltoallw, (void *from, F n, A at, F types, void *to, F to_n, A to_at, F to_types, F comm, F error)) {
    exchange each = types_for_neighbors(COMM(comm), types, to_types);
    finish(MPI_Neighbor_alltoallw(address(from), n, at, each.types, address(to), to_n, to_at, each.to_types, COMM(comm)),
           error);
    drop(each);
}

ENTRY(ineighbor_alltoallw,
      (void *from, F n, A at, F types, void *to, F to_n, A to_at, F to_types, F comm, F request, F error)) {
    exchange each = types_for_neighbors(COMM(comm), types, to_types);
    MPI_Request handle;
    int result = MPI_Ineighbor_alltoallw(address(from), n, at, each.types, address(to), to_n, to_at, each.to_types,
                                         COMM(comm), &handle);
    if (result == MPI_SUCCESS)
        *request = PMPI_Request_c2f(handle);
    drop(each);
    finish(result, error);
}

#endif

#endif
#endif
