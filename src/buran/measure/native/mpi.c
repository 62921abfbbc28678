/* The MPI layer: every wrapped operation is a region; calls, bytes and communicator sizes go to its call path.
 *
 * Bytes follow Score-P's rules, so that models from both backends can be compared (docs/explanation/measurement.md has
 * the table). In the tables below N is the size of the communicator (of the remote group for intercommunicators), me the
 * own rank, and others is N - 1 if this process gave MPI_IN_PLACE, else N. What only the root knows is looked at only
 * there: elsewhere those arguments may be invalid.
 *
 * Must be compiled for each MPI: handles and constants differ.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* ---- one call of an operation */

static __thread int inside; /* MPI libraries call MPI operations themselves: those are not the program's */

typedef struct call {
    uint32_t token;
    int outermost;
} call;

static inline call begin(buran_region *region) {
    call this = {.outermost = inside++ == 0};
    if (this.outermost)
        this.token = buran_enter(region);
    return this;
}

static inline void end(call this, uint64_t sent, uint64_t received, int comm_size) {
    inside--;
    if (!this.outermost || !(this.token & BURAN_TOKEN_RECORDED))
        return;
    buran_node *node = buran_self()->current;
    node->bytes_sent += sent;
    node->bytes_received += received;
    if (comm_size > 0) {
        uint32_t size = (uint32_t)comm_size;
        node->comm_sum += size;
        if (!node->comm_min || size < node->comm_min)
            node->comm_min = size;
        if (size > node->comm_max)
            node->comm_max = size;
    }
    buran_exit(this.token);
}

#define REGION(NAME) \
    static buran_region region = {.name = #NAME, .mangled = #NAME, .file = "MPI", .kind = BURAN_KIND_MPI}

/* ---- facts about arguments */

static inline uint64_t size_of(MPI_Datatype type) {
    int size = 0;
    if (type != MPI_DATATYPE_NULL)
        PMPI_Type_size(type, &size);
    return size > 0 ? (uint64_t)size : 0;
}

static inline uint64_t bytes_of(int count, MPI_Datatype type) {
    return count > 0 ? (uint64_t)count * size_of(type) : 0;
}

static inline uint64_t bytes_to(int partner, int count, MPI_Datatype type) {
    return partner == MPI_PROC_NULL ? 0 : bytes_of(count, type);
}

static inline int is_inter(MPI_Comm comm) {
    int inter = 0;
    PMPI_Comm_test_inter(comm, &inter);
    return inter;
}

static inline int size_of_comm(MPI_Comm comm) {
    int size = 0;
    if (is_inter(comm))
        PMPI_Comm_remote_size(comm, &size);
    else
        PMPI_Comm_size(comm, &size);
    return size;
}

static inline int rank_in(MPI_Comm comm) {
    int rank = 0;
    PMPI_Comm_rank(comm, &rank);
    return rank;
}

static inline int is_root(int root, MPI_Comm comm) {
    return is_inter(comm) ? root == MPI_ROOT : root == rank_in(comm);
}

/* Does this process take part in a rooted operation? In the root's group of an intercommunicator only the root does. */
static inline int takes_part(int root) { return root != MPI_PROC_NULL; }

static inline uint64_t sum_of(const int *counts, uint64_t n) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += (uint64_t)counts[i];
    return sum;
}

static inline uint64_t bytes_received_by(const MPI_Status *status) {
    MPI_Count bytes = 0;
    if (PMPI_Get_elements_x(status, MPI_BYTE, &bytes) != MPI_SUCCESS || bytes < 0)
        return 0;
    return (uint64_t)bytes;
}

/* ---- requests: what a later Wait, Test or Start will need to know */

enum slot_use { SLOT_FREE = 0, SLOT_DELETED, SLOT_RECEIVE, SLOT_SEND };

typedef struct slot {
    MPI_Request request;
    enum slot_use use;
    int persistent, active, comm_size;
    uint64_t bytes_sent; /* by each start of a persistent send */
} slot;

static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
static slot *slots;
static size_t slot_capacity, slots_used; /* open addressing; the capacity is a power of two */

static size_t first_slot_of(MPI_Request request) {
    uint64_t value = 0;
    memcpy(&value, &request, sizeof request < sizeof value ? sizeof request : sizeof value);
    value = (value ^ (value >> 17)) * 0x9E3779B97F4A7C15u;
    return (size_t)(value >> 32) & (slot_capacity - 1);
}

static slot *find(MPI_Request request) {
    if (!slot_capacity)
        return NULL;
    for (size_t i = first_slot_of(request);; i = (i + 1) & (slot_capacity - 1)) {
        if (slots[i].use == SLOT_FREE)
            return NULL;
        if (slots[i].use != SLOT_DELETED && slots[i].request == request)
            return &slots[i];
    }
}

static void insert(slot entry) {
    size_t i = first_slot_of(entry.request);
    while (slots[i].use != SLOT_FREE)
        i = (i + 1) & (slot_capacity - 1);
    slots[i] = entry;
    slots_used++;
}

/* At most half of the slots are in use, deleted ones included; growing drops those. */
static void make_room(void) {
    if (2 * (slots_used + 1) <= slot_capacity)
        return;
    slot *old = slots;
    size_t old_capacity = slot_capacity, live = 0;
    for (size_t i = 0; i < old_capacity; i++)
        live += old[i].use > SLOT_DELETED;
    slot_capacity = 256;
    while (slot_capacity < 4 * (live + 1))
        slot_capacity *= 2;
    slots = calloc(slot_capacity, sizeof *slots);
    if (!slots)
        abort();
    slots_used = 0;
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].use > SLOT_DELETED)
            insert(old[i]);
    free(old);
}

static void remember(slot entry) {
    if (entry.request == MPI_REQUEST_NULL)
        return;
    pthread_mutex_lock(&slots_lock);
    slot *known = find(entry.request);
    if (known) {
        *known = entry;
    } else {
        make_room();
        insert(entry);
    }
    pthread_mutex_unlock(&slots_lock);
}

static void forget(MPI_Request request) {
    pthread_mutex_lock(&slots_lock);
    slot *known = find(request);
    if (known)
        known->use = SLOT_DELETED;
    pthread_mutex_unlock(&slots_lock);
}

/* Bytes that a completed request has received. */
static uint64_t complete(MPI_Request request, const MPI_Status *status) {
    uint64_t bytes = 0;
    if (request == MPI_REQUEST_NULL)
        return 0;
    pthread_mutex_lock(&slots_lock);
    slot *known = find(request);
    if (known) {
        if (known->use == SLOT_RECEIVE && known->active) {
            int cancelled = 0;
            PMPI_Test_cancelled(status, &cancelled);
            bytes = cancelled ? 0 : bytes_received_by(status);
        }
        known->active = 0;
        if (!known->persistent)
            known->use = SLOT_DELETED;
    }
    pthread_mutex_unlock(&slots_lock);
    return bytes;
}

/* Bytes that starting a persistent request sends. */
static uint64_t start(MPI_Request request, int *comm_size) {
    uint64_t bytes = 0;
    pthread_mutex_lock(&slots_lock);
    slot *known = find(request);
    if (known) {
        known->active = 1;
        bytes = known->bytes_sent;
        *comm_size = known->comm_size;
    }
    pthread_mutex_unlock(&slots_lock);
    return bytes;
}

/* ---- beginning and end of the program */

static void mpi_is_up(void) {
    PMPI_Comm_rank(MPI_COMM_WORLD, &buran_this_process.rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &buran_this_process.size);
    buran_this_process.mpi_state = BURAN_MPI_RUNNING;
}

int MPI_Init(int *argc, char ***argv) {
    REGION(MPI_Init);
    call this = begin(&region);
    int result = PMPI_Init(argc, argv);
    mpi_is_up();
    end(this, 0, 0, buran_this_process.size);
    return result;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    REGION(MPI_Init_thread);
    call this = begin(&region);
    int result = PMPI_Init_thread(argc, argv, required, provided);
    mpi_is_up();
    end(this, 0, 0, buran_this_process.size);
    return result;
}

int MPI_Finalize(void) {
    REGION(MPI_Finalize);
    call this = begin(&region);
    int result = PMPI_Finalize();
    if (result == MPI_SUCCESS)
        buran_this_process.mpi_state = BURAN_MPI_FINALIZED;
    end(this, 0, 0, buran_this_process.size);
    return result;
}

int MPI_Abort(MPI_Comm comm, int code) {
    buran_write_dump(1);
    return PMPI_Abort(comm, code);
}

/* ---- point to point */

#define SEND(NAME)                                                                                     \
    int MPI_##NAME(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) { \
        REGION(MPI_##NAME);                                                                            \
        call this = begin(&region);                                                                    \
        int result = PMPI_##NAME(buffer, count, type, to, tag, comm);                                  \
        end(this, bytes_to(to, count, type), 0, size_of_comm(comm));                                   \
        return result;                                                                                 \
    }
SEND(Send)
SEND(Ssend)
SEND(Bsend)
SEND(Rsend)

/* A handle may have belonged to a receive before: forget that one. */
#define ISEND(NAME)                                                                                  \
    int MPI_##NAME(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, \
                   MPI_Request *request) {                                                           \
        REGION(MPI_##NAME);                                                                          \
        call this = begin(&region);                                                                  \
        int result = PMPI_##NAME(buffer, count, type, to, tag, comm, request);                       \
        forget(*request);                                                                            \
        end(this, bytes_to(to, count, type), 0, size_of_comm(comm));                                 \
        return result;                                                                               \
    }
ISEND(Isend)
ISEND(Issend)
ISEND(Ibsend)
ISEND(Irsend)

#define SEND_INIT(NAME)                                                                              \
    int MPI_##NAME(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, \
                   MPI_Request *request) {                                                           \
        REGION(MPI_##NAME);                                                                          \
        call this = begin(&region);                                                                  \
        int result = PMPI_##NAME(buffer, count, type, to, tag, comm, request);                       \
        int size = size_of_comm(comm);                                                               \
        remember((slot){.request = *request, .use = SLOT_SEND, .persistent = 1, .comm_size = size,   \
                        .bytes_sent = bytes_to(to, count, type)});                                   \
        end(this, 0, 0, size);                                                                       \
        return result;                                                                               \
    }
SEND_INIT(Send_init)
SEND_INIT(Ssend_init)
SEND_INIT(Bsend_init)
SEND_INIT(Rsend_init)

int MPI_Recv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status) {
    REGION(MPI_Recv);
    call this = begin(&region);
    MPI_Status own, *used = status == MPI_STATUS_IGNORE ? &own : status;
    int result = PMPI_Recv(buffer, count, type, from, tag, comm, used);
    end(this, 0, from == MPI_PROC_NULL ? 0 : bytes_received_by(used), size_of_comm(comm));
    return result;
}

int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request) {
    REGION(MPI_Irecv);
    call this = begin(&region);
    int result = PMPI_Irecv(buffer, count, type, from, tag, comm, request);
    int size = size_of_comm(comm);
    if (from == MPI_PROC_NULL)
        forget(*request);
    else
        remember((slot){.request = *request, .use = SLOT_RECEIVE, .active = 1, .comm_size = size});
    end(this, 0, 0, size);
    return result;
}

int MPI_Recv_init(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request) {
    REGION(MPI_Recv_init);
    call this = begin(&region);
    int result = PMPI_Recv_init(buffer, count, type, from, tag, comm, request);
    int size = size_of_comm(comm);
    remember((slot){.request = *request, .use = SLOT_RECEIVE, .persistent = 1, .comm_size = size});
    end(this, 0, 0, size);
    return result;
}

int MPI_Mrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status) {
    REGION(MPI_Mrecv);
    call this = begin(&region);
    MPI_Status own, *used = status == MPI_STATUS_IGNORE ? &own : status;
    int nobody = *message == MPI_MESSAGE_NO_PROC;
    int result = PMPI_Mrecv(buffer, count, type, message, used);
    end(this, 0, nobody ? 0 : bytes_received_by(used), 0);
    return result;
}

int MPI_Sendrecv(const void *send_buffer, int send_count, MPI_Datatype send_type, int to, int send_tag,
                 void *recv_buffer, int recv_count, MPI_Datatype recv_type, int from, int recv_tag, MPI_Comm comm,
                 MPI_Status *status) {
    REGION(MPI_Sendrecv);
    call this = begin(&region);
    MPI_Status own, *used = status == MPI_STATUS_IGNORE ? &own : status;
    int result = PMPI_Sendrecv(send_buffer, send_count, send_type, to, send_tag, recv_buffer, recv_count, recv_type,
                               from, recv_tag, comm, used);
    end(this, bytes_to(to, send_count, send_type), from == MPI_PROC_NULL ? 0 : bytes_received_by(used),
        size_of_comm(comm));
    return result;
}

int MPI_Sendrecv_replace(void *buffer, int count, MPI_Datatype type, int to, int send_tag, int from, int recv_tag,
                         MPI_Comm comm, MPI_Status *status) {
    REGION(MPI_Sendrecv_replace);
    call this = begin(&region);
    MPI_Status own, *used = status == MPI_STATUS_IGNORE ? &own : status;
    int result = PMPI_Sendrecv_replace(buffer, count, type, to, send_tag, from, recv_tag, comm, used);
    end(this, bytes_to(to, count, type), from == MPI_PROC_NULL ? 0 : bytes_received_by(used), size_of_comm(comm));
    return result;
}

int MPI_Start(MPI_Request *request) {
    REGION(MPI_Start);
    call this = begin(&region);
    int comm_size = 0;
    uint64_t sent = start(*request, &comm_size);
    int result = PMPI_Start(request);
    end(this, sent, 0, comm_size);
    return result;
}

int MPI_Startall(int count, MPI_Request *requests) {
    REGION(MPI_Startall);
    call this = begin(&region);
    int comm_size = 0;
    uint64_t sent = 0;
    for (int i = 0; i < count; i++)
        sent += start(requests[i], &comm_size);
    int result = PMPI_Startall(count, requests);
    end(this, sent, 0, comm_size);
    return result;
}

int MPI_Request_free(MPI_Request *request) {
    REGION(MPI_Request_free);
    call this = begin(&region);
    forget(*request);
    int result = PMPI_Request_free(request);
    end(this, 0, 0, 0);
    return result;
}

/* ---- completion: bytes of a completed receive are booked where it completes */

/* The handles before the call, which overwrites them, and room for the statuses if the caller wants none. */
typedef struct pending {
    MPI_Request *requests;
    MPI_Status *statuses;
    int owns_statuses;
} pending;

static pending look_at(int count, const MPI_Request *requests, MPI_Status *statuses) {
    size_t n = count > 0 ? (size_t)count : 1;
    pending this = {.requests = malloc(n * sizeof *requests), .statuses = statuses};
    this.owns_statuses = statuses == MPI_STATUSES_IGNORE;
    if (this.owns_statuses)
        this.statuses = malloc(n * sizeof *statuses);
    if (!this.requests || !this.statuses)
        abort();
    if (count > 0)
        memcpy(this.requests, requests, (size_t)count * sizeof *requests);
    return this;
}

static void look_away(pending this) {
    free(this.requests);
    if (this.owns_statuses)
        free(this.statuses);
}

int MPI_Wait(MPI_Request *request, MPI_Status *status) {
    REGION(MPI_Wait);
    call this = begin(&region);
    MPI_Status own, *used = status == MPI_STATUS_IGNORE ? &own : status;
    MPI_Request before = *request;
    int result = PMPI_Wait(request, used);
    end(this, 0, complete(before, used), 0);
    return result;
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    REGION(MPI_Test);
    call this = begin(&region);
    MPI_Status own, *used = status == MPI_STATUS_IGNORE ? &own : status;
    MPI_Request before = *request;
    int result = PMPI_Test(request, flag, used);
    end(this, 0, *flag ? complete(before, used) : 0, 0);
    return result;
}

int MPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses) {
    REGION(MPI_Waitall);
    call this = begin(&region);
    pending before = look_at(count, requests, statuses);
    int result = PMPI_Waitall(count, requests, before.statuses);
    uint64_t received = 0;
    for (int i = 0; i < count; i++)
        received += complete(before.requests[i], &before.statuses[i]);
    look_away(before);
    end(this, 0, received, 0);
    return result;
}

int MPI_Testall(int count, MPI_Request *requests, int *flag, MPI_Status *statuses) {
    REGION(MPI_Testall);
    call this = begin(&region);
    pending before = look_at(count, requests, statuses);
    int result = PMPI_Testall(count, requests, flag, before.statuses);
    uint64_t received = 0;
    for (int i = 0; *flag && i < count; i++)
        received += complete(before.requests[i], &before.statuses[i]);
    look_away(before);
    end(this, 0, received, 0);
    return result;
}

#define COMPLETE_SOME(NAME)                                                                                  \
    int MPI_##NAME(int count, MPI_Request *requests, int *done, int *indices, MPI_Status *statuses) {        \
        REGION(MPI_##NAME);                                                                                  \
        call this = begin(&region);                                                                          \
        pending before = look_at(count, requests, statuses);                                                 \
        int result = PMPI_##NAME(count, requests, done, indices, before.statuses);                           \
        uint64_t received = 0;                                                                               \
        for (int i = 0; *done != MPI_UNDEFINED && i < *done; i++)                                            \
            received += complete(before.requests[indices[i]], &before.statuses[i]);                          \
        look_away(before);                                                                                   \
        end(this, 0, received, 0);                                                                           \
        return result;                                                                                       \
    }
COMPLETE_SOME(Waitsome)
COMPLETE_SOME(Testsome)

int MPI_Waitany(int count, MPI_Request *requests, int *index, MPI_Status *status) {
    REGION(MPI_Waitany);
    call this = begin(&region);
    MPI_Status own, *used = status == MPI_STATUS_IGNORE ? &own : status;
    pending before = look_at(count, requests, used);
    int result = PMPI_Waitany(count, requests, index, used);
    uint64_t received = *index != MPI_UNDEFINED ? complete(before.requests[*index], used) : 0;
    look_away(before);
    end(this, 0, received, 0);
    return result;
}

int MPI_Testany(int count, MPI_Request *requests, int *index, int *flag, MPI_Status *status) {
    REGION(MPI_Testany);
    call this = begin(&region);
    MPI_Status own, *used = status == MPI_STATUS_IGNORE ? &own : status;
    pending before = look_at(count, requests, used);
    int result = PMPI_Testany(count, requests, index, flag, used);
    uint64_t received = *flag && *index != MPI_UNDEFINED ? complete(before.requests[*index], used) : 0;
    look_away(before);
    end(this, 0, received, 0);
    return result;
}

/* ---- collectives: one table, from which the blocking and the non-blocking form are made
 *
 * ROW(blocking, non-blocking, parameters, arguments, own buffer, bytes sent, bytes received)
 * A non-blocking operation is booked where it starts.
 */

#define COLLECTIVE_LIST(ROW)                                                                                          \
    ROW(Barrier, Ibarrier, (MPI_Comm comm), (comm), NULL, 0, 0)                                                       \
    ROW(Bcast, Ibcast, (void *buf, int n, MPI_Datatype type, int root, MPI_Comm comm), (buf, n, type, root, comm),    \
        NULL,                                                                                                         \
        is_root(root, comm) ? N * bytes_of(n, type) : 0,                                                              \
        root == MPI_ROOT || !takes_part(root) ? 0 : bytes_of(n, type))                                                \
    ROW(Reduce, Ireduce,                                                                                              \
        (const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),                   \
        (from, to, n, type, op, root, comm), from,                                                                    \
        from == MPI_IN_PLACE || root == MPI_ROOT || !takes_part(root) ? 0 : bytes_of(n, type),                        \
        is_root(root, comm) ? others * bytes_of(n, type) : 0)                                                         \
    ROW(Allreduce, Iallreduce, (const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),      \
        (from, to, n, type, op, comm), from,                                                                          \
        others * bytes_of(n, type),                                                                                   \
        others * bytes_of(n, type))                                                                                   \
    ROW(Reduce_scatter_block, Ireduce_scatter_block,                                                                  \
        (const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),                             \
        (from, to, n, type, op, comm), from,                                                                          \
        others * bytes_of(n, type),                                                                                   \
        others * bytes_of(n, type))                                                                                   \
    ROW(Reduce_scatter, Ireduce_scatter,                                                                              \
        (const void *from, void *to, const int n[], MPI_Datatype type, MPI_Op op, MPI_Comm comm),                     \
        (from, to, n, type, op, comm), from,                                                                          \
        (sum_of(n, group) - (others < N ? (uint64_t)n[me] : 0)) * size_of(type),                                      \
        others * bytes_of(n[me], type))                                                                               \
    ROW(Scan, Iscan, (const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),                \
        (from, to, n, type, op, comm), from,                                                                          \
        (others - me) * bytes_of(n, type),                                                                            \
        (others - N + me + 1) * bytes_of(n, type))                                                                    \
    ROW(Exscan, Iexscan, (const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),            \
        (from, to, n, type, op, comm), NULL,                                                                          \
        (N - me - 1) * bytes_of(n, type),                                                                             \
        me * bytes_of(n, type))                                                                                       \
    ROW(Gather, Igather,                                                                                              \
        (const void *from, int n, MPI_Datatype type, void *to, int to_n, MPI_Datatype to_type, int root,              \
         MPI_Comm comm),                                                                                              \
        (from, n, type, to, to_n, to_type, root, comm), from,                                                         \
        from == MPI_IN_PLACE || root == MPI_ROOT || !takes_part(root) ? 0 : bytes_of(n, type),                        \
        is_root(root, comm) ? others * bytes_of(to_n, to_type) : 0)                                                   \
    ROW(Gatherv, Igatherv,                                                                                            \
        (const void *from, int n, MPI_Datatype type, void *to, const int to_n[], const int at[],                      \
         MPI_Datatype to_type, int root, MPI_Comm comm),                                                              \
        (from, n, type, to, to_n, at, to_type, root, comm), from,                                                     \
        from == MPI_IN_PLACE || root == MPI_ROOT || !takes_part(root) ? 0 : bytes_of(n, type),                        \
        is_root(root, comm) ? (sum_of(to_n, N) - (others < N ? (uint64_t)to_n[me] : 0)) * size_of(to_type) : 0)       \
    ROW(Scatter, Iscatter,                                                                                            \
        (const void *from, int n, MPI_Datatype type, void *to, int to_n, MPI_Datatype to_type, int root,              \
         MPI_Comm comm),                                                                                              \
        (from, n, type, to, to_n, to_type, root, comm), to,                                                           \
        is_root(root, comm) ? others * bytes_of(n, type) : 0,                                                         \
        to == MPI_IN_PLACE || root == MPI_ROOT || !takes_part(root) ? 0 : bytes_of(to_n, to_type))                    \
    ROW(Scatterv, Iscatterv,                                                                                          \
        (const void *from, const int n[], const int at[], MPI_Datatype type, void *to, int to_n,                      \
         MPI_Datatype to_type, int root, MPI_Comm comm),                                                              \
        (from, n, at, type, to, to_n, to_type, root, comm), to,                                                       \
        is_root(root, comm) ? (sum_of(n, N) - (others < N ? (uint64_t)n[me] : 0)) * size_of(type) : 0,                \
        to == MPI_IN_PLACE || root == MPI_ROOT || !takes_part(root) ? 0 : bytes_of(to_n, to_type))                    \
    ROW(Allgather, Iallgather,                                                                                        \
        (const void *from, int n, MPI_Datatype type, void *to, int to_n, MPI_Datatype to_type, MPI_Comm comm),        \
        (from, n, type, to, to_n, to_type, comm), from,                                                               \
        others < N ? others * bytes_of(to_n, to_type) : N * bytes_of(n, type),                                        \
        others * bytes_of(to_n, to_type))                                                                             \
    ROW(Allgatherv, Iallgatherv,                                                                                      \
        (const void *from, int n, MPI_Datatype type, void *to, const int to_n[], const int at[],                      \
         MPI_Datatype to_type, MPI_Comm comm),                                                                        \
        (from, n, type, to, to_n, at, to_type, comm), from,                                                           \
        others < N ? others * bytes_of(to_n[me], to_type) : N * bytes_of(n, type),                                    \
        (sum_of(to_n, N) - (others < N ? (uint64_t)to_n[me] : 0)) * size_of(to_type))                                 \
    ROW(Alltoall, Ialltoall,                                                                                          \
        (const void *from, int n, MPI_Datatype type, void *to, int to_n, MPI_Datatype to_type, MPI_Comm comm),        \
        (from, n, type, to, to_n, to_type, comm), from,                                                               \
        others < N ? others * bytes_of(to_n, to_type) : N * bytes_of(n, type),                                        \
        others * bytes_of(to_n, to_type))                                                                             \
    ROW(Alltoallv, Ialltoallv,                                                                                        \
        (const void *from, const int n[], const int from_at[], MPI_Datatype type, void *to, const int to_n[],         \
         const int to_at[], MPI_Datatype to_type, MPI_Comm comm),                                                     \
        (from, n, from_at, type, to, to_n, to_at, to_type, comm), from,                                               \
        others < N ? (sum_of(to_n, N) - (uint64_t)to_n[me]) * size_of(to_type) : sum_of(n, N) * size_of(type),        \
        (sum_of(to_n, N) - (others < N ? (uint64_t)to_n[me] : 0)) * size_of(to_type))

#define UNPACK(...) __VA_ARGS__

/* `group` is the size of the own group: per-process counts of Reduce_scatter are about that one. */
#define COLLECTIVE_BODY(NAME, CALL, OWN_BUFFER, SENT, RECEIVED)                            \
    {                                                                                      \
        REGION(NAME);                                                                      \
        call this = begin(&region);                                                        \
        uint64_t N = (uint64_t)size_of_comm(comm), me = (uint64_t)rank_in(comm);           \
        uint64_t others = (OWN_BUFFER) == MPI_IN_PLACE ? N - 1 : N;                        \
        int group_size = 0;                                                                \
        PMPI_Comm_size(comm, &group_size);                                                 \
        uint64_t group = (uint64_t)group_size;                                             \
        (void)me, (void)others, (void)group;                                               \
        uint64_t sent = (SENT), received = (RECEIVED);                                     \
        int result = CALL;                                                                 \
        end(this, sent, received, (int)N);                                                 \
        return result;                                                                     \
    }

#define BLOCKING(NAME, INAME, PARAMETERS, ARGUMENTS, OWN_BUFFER, SENT, RECEIVED) \
    int MPI_##NAME PARAMETERS COLLECTIVE_BODY(MPI_##NAME, PMPI_##NAME ARGUMENTS, OWN_BUFFER, SENT, RECEIVED)
COLLECTIVE_LIST(BLOCKING)

#define NON_BLOCKING(NAME, INAME, PARAMETERS, ARGUMENTS, OWN_BUFFER, SENT, RECEIVED)                      \
    int MPI_##INAME(UNPACK PARAMETERS, MPI_Request *request)                                              \
        COLLECTIVE_BODY(MPI_##INAME, start_collective(PMPI_##INAME(UNPACK ARGUMENTS, request), request),  \
                        OWN_BUFFER, SENT, RECEIVED)

/* The handle may have belonged to a receive before. */
static int start_collective(int result, const MPI_Request *request) {
    forget(*request);
    return result;
}
COLLECTIVE_LIST(NON_BLOCKING)

/* ---- operations that move no bytes of the program, or none that Score-P counts: visits, time, communicator size
 *
 * ROW(name, parameters, arguments, communicator size)
 */

#define PLAIN_LIST(ROW)                                                                                              \
    ROW(Probe, (int from, int tag, MPI_Comm comm, MPI_Status *status), (from, tag, comm, status), size_of_comm(comm)) \
    ROW(Iprobe, (int from, int tag, MPI_Comm comm, int *flag, MPI_Status *status), (from, tag, comm, flag, status),  \
        size_of_comm(comm))                                                                                          \
    ROW(Mprobe, (int from, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status),                        \
        (from, tag, comm, message, status), size_of_comm(comm))                                                      \
    ROW(Cancel, (MPI_Request *request), (request), 0)                                                                \
    ROW(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *made), (comm, group, made), size_of_comm(comm))      \
    ROW(Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made), (comm, group, tag, made),      \
        size_of_comm(comm))                                                                                          \
    ROW(Comm_dup, (MPI_Comm comm, MPI_Comm *made), (comm, made), size_of_comm(comm))                                 \
    ROW(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *made), (comm, color, key, made),                   \
        size_of_comm(comm))                                                                                          \
    ROW(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made),                          \
        (comm, type, key, info, made), size_of_comm(comm))                                                           \
    ROW(Comm_free, (MPI_Comm *comm), (comm), 0)                                                                      \
    ROW(Cart_create, (MPI_Comm comm, int n, const int dims[], const int periods[], int reorder, MPI_Comm *made),     \
        (comm, n, dims, periods, reorder, made), size_of_comm(comm))                                                 \
    ROW(Cart_sub, (MPI_Comm comm, const int remains[], MPI_Comm *made), (comm, remains, made), size_of_comm(comm))   \
    ROW(Intercomm_create, (MPI_Comm comm, int leader, MPI_Comm peer, int remote_leader, int tag, MPI_Comm *made),    \
        (comm, leader, peer, remote_leader, tag, made), size_of_comm(comm))                                          \
    ROW(Intercomm_merge, (MPI_Comm comm, int high, MPI_Comm *made), (comm, high, made), size_of_comm(comm))          \
    ROW(Win_create, (void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win),               \
        (base, size, unit, info, comm, win), size_of_comm(comm))                                                     \
    ROW(Win_allocate, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win),             \
        (size, unit, info, comm, base, win), size_of_comm(comm))                                                     \
    ROW(Win_free, (MPI_Win *win), (win), 0)                                                                          \
    ROW(Win_fence, (int assertion, MPI_Win win), (assertion, win), 0)                                                \
    ROW(Win_lock, (int type, int rank, int assertion, MPI_Win win), (type, rank, assertion, win), 0)                 \
    ROW(Win_unlock, (int rank, MPI_Win win), (rank, win), 0)                                                         \
    ROW(Put,                                                                                                         \
        (const void *from, int n, MPI_Datatype type, int rank, MPI_Aint at, int to_n, MPI_Datatype to_type,          \
         MPI_Win win),                                                                                               \
        (from, n, type, rank, at, to_n, to_type, win), 0)                                                            \
    ROW(Get, (void *to, int n, MPI_Datatype type, int rank, MPI_Aint at, int from_n, MPI_Datatype from_type,         \
              MPI_Win win),                                                                                          \
        (to, n, type, rank, at, from_n, from_type, win), 0)                                                          \
    ROW(Accumulate,                                                                                                  \
        (const void *from, int n, MPI_Datatype type, int rank, MPI_Aint at, int to_n, MPI_Datatype to_type,          \
         MPI_Op op, MPI_Win win),                                                                                    \
        (from, n, type, rank, at, to_n, to_type, op, win), 0)

#define PLAIN(NAME, PARAMETERS, ARGUMENTS, COMM_SIZE) \
    int MPI_##NAME PARAMETERS {                       \
        REGION(MPI_##NAME);                           \
        call this = begin(&region);                   \
        int comm_size = (COMM_SIZE);                  \
        int result = PMPI_##NAME ARGUMENTS;           \
        end(this, 0, 0, comm_size);                   \
        return result;                                \
    }
PLAIN_LIST(PLAIN)
