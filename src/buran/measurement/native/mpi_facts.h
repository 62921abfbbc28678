/* What is known of the arguments of an MPI operation: sizes of data types, groups, roots, neighbours, statuses. */
#ifndef BURAN_MPI_FACTS_H
#define BURAN_MPI_FACTS_H

#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define FAST_THREAD_LOCAL static __thread __attribute__((tls_model("initial-exec")))

/* ---- communicators
 *
 * Their sizes are asked for once and kept per thread. An attribute on the communicator tells when it is freed, however
 * that happens; its handle may then come back for another one, so everything that is kept becomes invalid.
 */

typedef struct comm_group {
    MPI_Comm comm;
    uint64_t generation; /* valid while it is the current one */
    uint64_t partners;   /* size of the group that one talks to: the remote one of an intercommunicator */
    uint64_t own, rank;  /* size of the own group, and the own rank in it */
    int inter;
} comm_group;

enum { GROUPS_KEPT = 16 };

static uint64_t comm_generation = 1;
static int comm_keyval = MPI_KEYVAL_INVALID;
static pthread_mutex_t comm_keyval_lock = PTHREAD_MUTEX_INITIALIZER;

static int on_free_of_comm(MPI_Comm comm, int keyval, void *value, void *extra) {
    (void)comm, (void)keyval, (void)value, (void)extra;
    __atomic_fetch_add(&comm_generation, 1, __ATOMIC_SEQ_CST);
    return MPI_SUCCESS;
}

/* Will we hear of its end? */
static int watch(MPI_Comm comm) {
    void *value;
    int there = 0;
    if (comm == MPI_COMM_WORLD || comm == MPI_COMM_SELF)
        return 1;
    pthread_mutex_lock(&comm_keyval_lock);
    if (comm_keyval == MPI_KEYVAL_INVALID &&
        PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_free_of_comm, &comm_keyval, NULL) != MPI_SUCCESS)
        comm_keyval = MPI_KEYVAL_INVALID;
    pthread_mutex_unlock(&comm_keyval_lock);
    if (comm_keyval == MPI_KEYVAL_INVALID)
        return 0;
    if (PMPI_Comm_get_attr(comm, comm_keyval, &value, &there) == MPI_SUCCESS && there)
        return 1;
    return PMPI_Comm_set_attr(comm, comm_keyval, NULL) == MPI_SUCCESS;
}

static void look_at_group(comm_group *this, MPI_Comm comm) {
    int inter = 0, partners = 0, own = 0, rank = 0;
    uint64_t generation = __atomic_load_n(&comm_generation, __ATOMIC_SEQ_CST);
    *this = (comm_group){.comm = comm};
    if (comm == MPI_COMM_NULL)
        return;
    PMPI_Comm_test_inter(comm, &inter);
    PMPI_Comm_size(comm, &own);
    PMPI_Comm_rank(comm, &rank);
    partners = own;
    if (inter)
        PMPI_Comm_remote_size(comm, &partners);
    this->inter = inter;
    this->partners = (uint64_t)partners;
    this->own = (uint64_t)own;
    this->rank = (uint64_t)rank;
    this->generation = watch(comm) ? generation : 0; /* 0 is never current */
}

FAST_THREAD_LOCAL comm_group groups_kept[GROUPS_KEPT];

static inline const comm_group *group_of(MPI_Comm comm) {
    uint64_t value = 0;
    memcpy(&value, &comm, sizeof comm < sizeof value ? sizeof comm : sizeof value);
    comm_group *this = &groups_kept[(value ^ (value >> 4) ^ (value >> 9)) % GROUPS_KEPT];
    if (__builtin_expect(this->comm != comm || this->generation != __atomic_load_n(&comm_generation, __ATOMIC_RELAXED),
                         0))
        look_at_group(this, comm);
    return this;
}

static inline int is_root(int root, const comm_group *them) {
    return them->inter ? root == MPI_ROOT : root == (int)them->rank;
}

/* Does this process talk to the root? In the root's group of an intercommunicator nobody does. Only there has the root
 * such a name: SimGrid's MPI_ROOT is 0. */
static inline int talks_to(int root, const comm_group *them) {
    return !them->inter || (root != MPI_ROOT && root != MPI_PROC_NULL);
}

/* ---- counts and data types. Asking for a type's size costs no more than looking it up in a table of our own would. */

static inline uint64_t size_of(MPI_Datatype type) {
#ifdef BURAN_SIMULATED /* where SimGrid 3.32 counts the gap in a pair too */
    if (type == MPI_DOUBLE_INT || type == MPI_LONG_INT)
        return sizeof(double) + sizeof(int);
    if (type == MPI_SHORT_INT)
        return sizeof(short) + sizeof(int);
    if (type == MPI_LONG_DOUBLE_INT)
        return sizeof(long double) + sizeof(int);
#endif
    int size = 0;
    MPI_Count large = 0;
    if (type == MPI_DATATYPE_NULL || PMPI_Type_size(type, &size) != MPI_SUCCESS)
        return 0;
    if (size != MPI_UNDEFINED)
        return (uint64_t)size;
    return PMPI_Type_size_x(type, &large) == MPI_SUCCESS && large > 0 ? (uint64_t)large : 0;
}

static inline uint64_t bytes_of(MPI_Count count, MPI_Datatype type) {
    return count > 0 ? (uint64_t)count * size_of(type) : 0;
}

static inline uint64_t bytes_to(int partner, MPI_Count count, MPI_Datatype type) {
    return partner == MPI_PROC_NULL ? 0 : bytes_of(count, type);
}

/* Counts are arrays of int or of MPI_Count. One's own part is left out where `in_place` is set. */
#define sum_of(counts, size, in_place, me)                        \
    ({                                                            \
        uint64_t total_ = 0;                                      \
        for (uint64_t i_ = 0; i_ < (size); i_++)                  \
            if (!((in_place) && i_ == (me)))                      \
                total_ += (uint64_t)(counts)[i_];                 \
        total_;                                                   \
    })

#define bytes_of_each(counts, types, size, in_place, me)          \
    ({                                                            \
        uint64_t total_ = 0;                                      \
        for (uint64_t i_ = 0; i_ < (size); i_++)                  \
            if (!((in_place) && i_ == (me)))                      \
                total_ += bytes_of((counts)[i_], (types)[i_]);    \
        total_;                                                   \
    })

/* ---- neighbours in a topology: those of a Cartesian grid may be missing at its border */

enum { INCOMING, OUTGOING };

static inline int neighbour_count(MPI_Comm comm, int direction) {
    int kind = MPI_UNDEFINED, count = 0, incoming = 0, outgoing = 0, weighted = 0;
    PMPI_Topo_test(comm, &kind);
    if (kind == MPI_CART) {
        PMPI_Cartdim_get(comm, &count);
        return 2 * count;
    }
    if (kind == MPI_GRAPH) {
        int rank = 0;
        PMPI_Comm_rank(comm, &rank);
        PMPI_Graph_neighbors_count(comm, rank, &count);
        return count;
    }
    if (kind != MPI_DIST_GRAPH)
        return 0;
    PMPI_Dist_graph_neighbors_count(comm, &incoming, &outgoing, &weighted);
    return direction == INCOMING ? incoming : outgoing;
}

static inline int is_there(MPI_Comm comm, int neighbour) {
    int kind = MPI_UNDEFINED, below = MPI_PROC_NULL, above = MPI_PROC_NULL;
    PMPI_Topo_test(comm, &kind);
    if (kind != MPI_CART)
        return 1;
    PMPI_Cart_shift(comm, neighbour / 2, 1, &below, &above);
    return (neighbour % 2 ? above : below) != MPI_PROC_NULL;
}

static inline uint64_t neighbours(MPI_Comm comm, int direction) {
    uint64_t there = 0;
    for (int i = 0, n = neighbour_count(comm, direction); i < n; i++)
        there += (uint64_t)is_there(comm, i);
    return there;
}

static inline uint64_t sources(MPI_Comm comm) { return neighbours(comm, INCOMING); }
static inline uint64_t destinations(MPI_Comm comm) { return neighbours(comm, OUTGOING); }

#define sum_of_near(counts, comm, direction)                                           \
    ({                                                                                 \
        uint64_t total_ = 0;                                                           \
        for (int i_ = 0, n_ = neighbour_count(comm, direction); i_ < n_; i_++)         \
            total_ += is_there(comm, i_) ? (uint64_t)(counts)[i_] : 0;                 \
        total_;                                                                        \
    })

#define bytes_of_each_near(counts, types, comm, direction)                             \
    ({                                                                                 \
        uint64_t total_ = 0;                                                           \
        for (int i_ = 0, n_ = neighbour_count(comm, direction); i_ < n_; i_++)         \
            total_ += is_there(comm, i_) ? bytes_of((counts)[i_], (types)[i_]) : 0;    \
        total_;                                                                        \
    })

/* ---- statuses */

/* MPICH leaves the status of MPI_Isendrecv as it finds it (seen with 5.0.2): what arrived cannot be known. */
#if defined(MPICH_VERSION)
enum { ISENDRECV_TELLS = 0 };
#else
enum { ISENDRECV_TELLS = 1 };
#endif

static inline uint64_t bytes_received_by(const MPI_Status *status) {
    int count = 0;
    MPI_Count bytes = 0;
    if (PMPI_Get_count(status, MPI_BYTE, &count) == MPI_SUCCESS && count != MPI_UNDEFINED)
        return count > 0 ? (uint64_t)count : 0;
    if (PMPI_Get_elements_x(status, MPI_BYTE, &bytes) != MPI_SUCCESS || bytes < 0)
        return 0;
    return (uint64_t)bytes;
}

#endif
