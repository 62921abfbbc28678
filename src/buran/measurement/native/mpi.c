/* The MPI layer: every intercepted operation is a region; calls, bytes and communicator sizes go to its call path.
 *
 * Most wrappers are generated for the MPI at hand from the table in mpi_table.py (mpi_wrappers.inc); those that begin and
 * end the program and those that start and complete requests stand here. Bytes follow Score-P's rules, so that models
 * from both can be compared.
 */
#include <mpi.h>

#include "internal.h"
#include "mpi_facts.h"
#include "mpi_requests.h"

/* ---- one call of an operation */

typedef struct call {
    buran_node *node;
    const buran_node *outer; /* the operation that has called the program that calls this one */
    uint32_t token;
} call;

FAST_THREAD_LOCAL const buran_node *operation; /* the innermost one that is going on */

/* Directly below an operation, MPI calls are the library's own. The program's come from a function of the program, be it
 * one that the library has called; and an operation that was left by a throw or a longjmp is no longer going on. */
static inline int begin(call *this, buran_region *region) {
    buran_thread *thread = buran_self();
    if (thread->current == operation)
        return 0;
    this->token = buran_enter(region);
    if (!(this->token & BURAN_TOKEN_RECORDED))
        return 0;
    this->node = thread->current;
    this->outer = operation;
    operation = this->node;
    buran_meet_simulator();
    return 1;
}

/* Failed operations count as visits only. */
static inline int end(const call *this, int result, uint64_t sent, uint64_t received, uint64_t comm_size) {
    buran_node *node = this->node;
    if (result == MPI_SUCCESS) {
        node->bytes_sent += sent;
        node->bytes_received += received;
    }
    if (comm_size) {
        uint32_t size = (uint32_t)comm_size;
        node->comm_sum += size;
        if (!node->comm_min || size < node->comm_min)
            node->comm_min = size;
        if (size > node->comm_max)
            node->comm_max = size;
    }
    operation = this->outer;
    buran_meet_simulator();
    buran_exit(this->token);
    return result;
}

#define BEGIN(NAME, ARGUMENTS)                                                                                    \
    static buran_region region = {.name = #NAME, .mangled = #NAME, .file = "MPI", .kind = BURAN_KIND_MPI};        \
    call this;                                                                                                    \
    if (__builtin_expect(!begin(&this, &region), 0))                                                              \
        return P##NAME ARGUMENTS;

#define GROUP(COMM)                                                      \
    const comm_group *them = group_of(COMM);                             \
    uint64_t N = them->partners, P = them->own, me = them->rank;         \
    (void)N, (void)P, (void)me;

#define ROOT(RANK) int at_root = is_root(RANK, them), member = talks_to(RANK, them);

#include "mpi_wrappers.inc"

/* ---- beginning and end of the program */

static int open_sessions; /* the world model counts as one */

static void mpi_is_up(void) {
    int level = MPI_THREAD_SINGLE;
    PMPI_Comm_rank(MPI_COMM_WORLD, &buran_this_process.rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &buran_this_process.size);
    PMPI_Query_thread(&level);
    threads_meet |= level == MPI_THREAD_MULTIPLE;
    __atomic_fetch_add(&open_sessions, 1, __ATOMIC_SEQ_CST);
    buran_this_process.mpi_state = BURAN_MPI_RUNNING;
}

static void mpi_is_down(void) {
    if (__atomic_sub_fetch(&open_sessions, 1, __ATOMIC_SEQ_CST) == 0)
        buran_this_process.mpi_state = BURAN_MPI_FINALIZED;
}

int MPI_Init(int *argc, char ***argv) {
    BEGIN(MPI_Init, (argc, argv))
    int result = PMPI_Init(argc, argv);
    if (result == MPI_SUCCESS)
        mpi_is_up();
    return end(&this, result, 0, 0, (uint64_t)buran_this_process.size);
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    BEGIN(MPI_Init_thread, (argc, argv, required, provided))
    int result = PMPI_Init_thread(argc, argv, required, provided);
#ifdef BURAN_SIMULATED /* SimGrid provides one thread, which may well be the only one that calls MPI */
    if (provided)
        *provided = required < MPI_THREAD_SERIALIZED ? required : MPI_THREAD_SERIALIZED;
#endif
    if (result == MPI_SUCCESS)
        mpi_is_up();
    return end(&this, result, 0, 0, (uint64_t)buran_this_process.size);
}

int MPI_Finalize(void) {
    BEGIN(MPI_Finalize, ())
    int result = PMPI_Finalize();
    if (result == MPI_SUCCESS)
        mpi_is_down();
    return end(&this, result, 0, 0, (uint64_t)buran_this_process.size);
}

int MPI_Abort(MPI_Comm comm, int code) {
    buran_write_dump(1);
    return PMPI_Abort(comm, code);
}

#ifdef BURAN_HAS_MPI_Session_init
/* A program without MPI_Init: its rank is that in the set of all processes. */
static void session_is_up(MPI_Session session) {
    MPI_Group world;
    threads_meet = 1;
    if (__atomic_fetch_add(&open_sessions, 1, __ATOMIC_SEQ_CST) == 0 &&
        PMPI_Group_from_session_pset(session, "mpi://WORLD", &world) == MPI_SUCCESS) {
        PMPI_Group_rank(world, &buran_this_process.rank);
        PMPI_Group_size(world, &buran_this_process.size);
        PMPI_Group_free(&world);
    }
    buran_this_process.mpi_state = BURAN_MPI_RUNNING;
}

int MPI_Session_init(MPI_Info info, MPI_Errhandler handler, MPI_Session *session) {
    BEGIN(MPI_Session_init, (info, handler, session))
    int result = PMPI_Session_init(info, handler, session);
    if (result == MPI_SUCCESS)
        session_is_up(*session);
    return end(&this, result, 0, 0, (uint64_t)buran_this_process.size);
}

int MPI_Session_finalize(MPI_Session *session) {
    BEGIN(MPI_Session_finalize, (session))
    int result = PMPI_Session_finalize(session);
    if (result == MPI_SUCCESS)
        mpi_is_down();
    return end(&this, result, 0, 0, (uint64_t)buran_this_process.size);
}
#endif

/* ---- requests */

int MPI_Start(MPI_Request *request) {
    BEGIN(MPI_Start, (request))
    uint32_t comm_size = 0;
    uint64_t sent = start(*request, &comm_size);
    int result = PMPI_Start(request);
    return end(&this, result, sent, 0, comm_size);
}

int MPI_Startall(int count, MPI_Request *requests) {
    BEGIN(MPI_Startall, (count, requests))
    uint32_t comm_size = 0;
    uint64_t sent = 0;
    for (int i = 0; i < count; i++)
        sent += start(requests[i], &comm_size);
    int result = PMPI_Startall(count, requests);
    return end(&this, result, sent, 0, comm_size);
}

int MPI_Request_free(MPI_Request *request) {
    BEGIN(MPI_Request_free, (request))
    forget(MPI_SUCCESS, request);
    return end(&this, PMPI_Request_free(request), 0, 0, 0);
}

int MPI_Cancel(MPI_Request *request) {
    BEGIN(MPI_Cancel, (request))
    __atomic_store_n(&cancels_seen, 1, __ATOMIC_SEQ_CST);
    return end(&this, PMPI_Cancel(request), 0, 0, 0);
}

/* ---- completion
 *
 * What completes is booked here: receives, and non-blocking and persistent collectives. Where nothing of that kind is
 * open, nothing has to be looked up.
 */

int MPI_Wait(MPI_Request *request, MPI_Status *status) {
    BEGIN(MPI_Wait, (request, status))
    if (!any_requests())
        return end(&this, PMPI_Wait(request, status), 0, 0, 0);
    MPI_Status own, *used = status == MPI_STATUS_IGNORE ? &own : status;
    uint64_t sent = 0, received = 0;
    entry taken;
    lock_requests();
    take_locked(*request, &taken);
    unlock_requests();
    int result = PMPI_Wait(request, used);
    if (result == MPI_SUCCESS)
        add_completed(&taken, used, &sent, &received);
    return end(&this, result, sent, received, 0);
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    BEGIN(MPI_Test, (request, flag, status))
    if (!any_requests())
        return end(&this, PMPI_Test(request, flag, status), 0, 0, 0);
    MPI_Status own, *used = status == MPI_STATUS_IGNORE ? &own : status;
    uint64_t sent = 0, received = 0;
    entry taken;
    lock_requests();
    take_locked(*request, &taken);
    unlock_requests();
    int result = PMPI_Test(request, flag, used);
    if (result == MPI_SUCCESS && *flag) {
        add_completed(&taken, used, &sent, &received);
    } else if (result == MPI_SUCCESS) {
        lock_requests();
        put_back_locked(&taken);
        unlock_requests();
    }
    return end(&this, result, sent, received, 0);
}

/* All of the batch have completed, or an error says which. */
static inline int end_all(const call *this, int result, batch *batch, const MPI_Request *requests,
                          const MPI_Status *statuses) {
    uint64_t sent = 0, received = 0;
    int told = batch->statuses != MPI_STATUSES_IGNORE;
    for (int i = 0; i < batch->count; i++) {
        const MPI_Status *status = told ? &batch->statuses[i] : NULL;
        if (result == MPI_SUCCESS || (result == MPI_ERR_IN_STATUS && told && status->MPI_ERROR == MPI_SUCCESS))
            add_completed(&batch->taken[i], status, &sent, &received);
        else if (requests[i] != MPI_REQUEST_NULL)
            put_back(batch, i);
    }
    drop(batch, statuses);
    int failed = result != MPI_SUCCESS && result != MPI_ERR_IN_STATUS;
    end(this, failed ? result : MPI_SUCCESS, sent, received, 0);
    return result;
}

int MPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses) {
    BEGIN(MPI_Waitall, (count, requests, statuses))
    if (!any_requests())
        return end(&this, PMPI_Waitall(count, requests, statuses), 0, 0, 0);
    batch batch;
    take_all(&batch, count, requests, statuses);
    int result = PMPI_Waitall(count, requests, batch.statuses);
    return end_all(&this, result, &batch, requests, statuses);
}

int MPI_Testall(int count, MPI_Request *requests, int *flag, MPI_Status *statuses) {
    BEGIN(MPI_Testall, (count, requests, flag, statuses))
    if (!any_requests())
        return end(&this, PMPI_Testall(count, requests, flag, statuses), 0, 0, 0);
    batch batch;
    take_all(&batch, count, requests, statuses);
    int result = PMPI_Testall(count, requests, flag, batch.statuses);
    if (result != MPI_SUCCESS || *flag)
        return end_all(&this, result, &batch, requests, statuses);
    put_back_all(&batch);
    drop(&batch, statuses);
    return end(&this, result, 0, 0, 0);
}

#define COMPLETE_SOME(NAME)                                                                                         \
    int MPI_##NAME(int count, MPI_Request *requests, int *done, int *indices, MPI_Status *statuses) {               \
        BEGIN(MPI_##NAME, (count, requests, done, indices, statuses))                                               \
        if (!any_requests())                                                                                        \
            return end(&this, PMPI_##NAME(count, requests, done, indices, statuses), 0, 0, 0);                      \
        batch batch;                                                                                                \
        uint64_t sent = 0, received = 0;                                                                            \
        take_all(&batch, count, requests, statuses);                                                                \
        int result = PMPI_##NAME(count, requests, done, indices, batch.statuses);                                   \
        int told = batch.statuses != MPI_STATUSES_IGNORE;                                                           \
        int completed = (result == MPI_SUCCESS || result == MPI_ERR_IN_STATUS) && *done != MPI_UNDEFINED ? *done : 0; \
        for (int i = 0; i < completed; i++) {                                                                       \
            const MPI_Status *status = told ? &batch.statuses[i] : NULL;                                            \
            if (result == MPI_SUCCESS || (told && status->MPI_ERROR == MPI_SUCCESS))                                \
                add_completed(&batch.taken[indices[i]], status, &sent, &received);                                  \
            batch.taken[indices[i]].use = NOTHING;                                                                  \
        }                                                                                                           \
        put_back_all(&batch);                                                                                       \
        drop(&batch, statuses);                                                                                     \
        end(&this, completed ? MPI_SUCCESS : result, sent, received, 0);                                            \
        return result;                                                                                              \
    }
COMPLETE_SOME(Waitsome)
COMPLETE_SOME(Testsome)

/* One of the batch has completed, or none where `which` is MPI_UNDEFINED. */
static inline int end_one(const call *this, int result, batch *batch, int which, const MPI_Status *status) {
    uint64_t sent = 0, received = 0;
    if (result == MPI_SUCCESS && which != MPI_UNDEFINED) {
        add_completed(&batch->taken[which], status, &sent, &received);
        batch->taken[which].use = NOTHING;
    }
    put_back_all(batch);
    drop(batch, MPI_STATUSES_IGNORE);
    return end(this, result, sent, received, 0);
}

int MPI_Waitany(int count, MPI_Request *requests, int *index, MPI_Status *status) {
    BEGIN(MPI_Waitany, (count, requests, index, status))
    if (!any_requests())
        return end(&this, PMPI_Waitany(count, requests, index, status), 0, 0, 0);
    MPI_Status own, *used = status == MPI_STATUS_IGNORE ? &own : status;
    batch batch;
    take_all(&batch, count, requests, NULL);
    int result = PMPI_Waitany(count, requests, index, used);
    return end_one(&this, result, &batch, *index, used);
}

int MPI_Testany(int count, MPI_Request *requests, int *index, int *flag, MPI_Status *status) {
    BEGIN(MPI_Testany, (count, requests, index, flag, status))
    if (!any_requests())
        return end(&this, PMPI_Testany(count, requests, index, flag, status), 0, 0, 0);
    MPI_Status own, *used = status == MPI_STATUS_IGNORE ? &own : status;
    batch batch;
    take_all(&batch, count, requests, NULL);
    int result = PMPI_Testany(count, requests, index, flag, used);
    return end_one(&this, result, &batch, result == MPI_SUCCESS && *flag ? *index : MPI_UNDEFINED, used);
}
