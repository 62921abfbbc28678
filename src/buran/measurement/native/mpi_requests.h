/* Requests: what a later Wait, Test or Start needs to know of what was begun.
 *
 * An entry leaves the table before the MPI may complete its request: as soon as it has, another thread may be given the
 * same handle for another operation. It is put back if the request has not completed.
 */
#ifndef BURAN_MPI_REQUESTS_H
#define BURAN_MPI_REQUESTS_H

#include <stdio.h>
#include <stdlib.h>

#include "mpi_facts.h"

enum { NOTHING = 0, ONCE, PERSISTENT };

/* Operations that were complete when they began may share one handle: then these wait behind the first. */
typedef struct later {
    struct later *next;
    uint64_t sent, received;
} later;

typedef struct entry {
    MPI_Request request;
    uint32_t comm_size;
    uint8_t use, active;
    uint8_t receives;        /* the status tells how much */
    uint8_t sends_at_start;  /* `sent` is booked by each start of a persistent request */
    uint64_t sent, received; /* else booked when it completes */
    later *behind;
} entry;

static pthread_mutex_t requests_lock = PTHREAD_MUTEX_INITIALIZER;
static int threads_meet; /* may threads call MPI at the same time? */
static int cancels_seen;
static entry *entries; /* open addressing with linear probing; the capacity is a power of two */
static size_t entry_capacity, entries_used;

static inline void lock_requests(void) {
    if (threads_meet)
        pthread_mutex_lock(&requests_lock);
}

static inline void unlock_requests(void) {
    if (threads_meet)
        pthread_mutex_unlock(&requests_lock);
}

static inline int any_requests(void) { return __atomic_load_n(&entries_used, __ATOMIC_RELAXED) != 0; }

static inline size_t home_of(MPI_Request request) {
    uint64_t value = 0;
    memcpy(&value, &request, sizeof request < sizeof value ? sizeof request : sizeof value);
    return (size_t)((value * 0x9E3779B97F4A7C15u) >> 32) & (entry_capacity - 1);
}

static void *must(void *memory) {
    if (!memory) {
        fputs("buran: out of memory while recording MPI requests\n", stderr);
        abort();
    }
    return memory;
}

static inline entry *find(MPI_Request request) {
    if (!entries_used)
        return NULL;
    for (size_t i = home_of(request); entries[i].use; i = (i + 1) & (entry_capacity - 1))
        if (entries[i].request == request)
            return &entries[i];
    return NULL;
}

static inline entry *free_place(MPI_Request request) {
    size_t i = home_of(request);
    while (entries[i].use)
        i = (i + 1) & (entry_capacity - 1);
    return &entries[i];
}

static void grow(void) {
    entry *old = entries;
    size_t old_capacity = entry_capacity;
    entry_capacity = old_capacity ? 2 * old_capacity : 256;
    entries = must(calloc(entry_capacity, sizeof *entries));
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].use)
            *free_place(old[i].request) = old[i];
    free(old);
}

static inline void insert(const entry *this) {
    if (__builtin_expect(2 * (entries_used + 1) > entry_capacity, 0))
        grow();
    *free_place(this->request) = *this;
    __atomic_store_n(&entries_used, entries_used + 1, __ATOMIC_RELAXED);
}

/* Close the gap, so that no search ends too early: what lies behind moves up unless it is nearer to its home. */
static inline void erase(entry *this) {
    size_t mask = entry_capacity - 1, gap = (size_t)(this - entries);
    while (__builtin_expect(this->behind != NULL, 0)) {
        later *gone = this->behind;
        this->behind = gone->next;
        free(gone);
    }
    for (size_t i = (gap + 1) & mask; entries[i].use; i = (i + 1) & mask) {
        size_t home = home_of(entries[i].request);
        if (((i - home) & mask) >= ((i - gap) & mask)) {
            entries[gap] = entries[i];
            gap = i;
        }
    }
    entries[gap].use = NOTHING;
    __atomic_store_n(&entries_used, entries_used - 1, __ATOMIC_RELAXED);
}

/* Can it have been complete when it began, with a handle that stands for many? A receive needs a status of its own. */
static inline int may_share(const entry *this) { return this->use == ONCE && !this->receives; }

static void wait_behind(entry *first, const entry *this) {
    later *fresh = must(malloc(sizeof *fresh)), **end = &first->behind;
    *fresh = (later){.sent = this->sent, .received = this->received};
    while (*end)
        end = &(*end)->next;
    *end = fresh;
}

static inline void remember_locked(const entry *this) {
    entry *known = find(this->request);
    if (__builtin_expect(known == NULL, 1)) {
        insert(this);
    } else if (may_share(known) && may_share(this)) {
        wait_behind(known, this);
    } else { /* what is known has ended without our knowledge */
        erase(known);
        insert(this);
    }
}

static inline void remember(int result, const MPI_Request *request, entry this) {
    if (result != MPI_SUCCESS || *request == MPI_REQUEST_NULL)
        return;
    this.request = *request;
    this.active = this.use == ONCE;
    lock_requests();
    remember_locked(&this);
    unlock_requests();
}

/* A request with nothing to book later. Its handle may have been that of a receive that ended without our knowledge. */
static inline void forget(int result, const MPI_Request *request) {
    if (result != MPI_SUCCESS || !any_requests())
        return;
    lock_requests();
    entry *known = find(*request);
    if (__builtin_expect(known != NULL, 0) && !may_share(known))
        erase(known);
    unlock_requests();
}

/* Take out what is known of a request that may complete now. */
static inline void take_locked(MPI_Request request, entry *taken) {
    entry *known = request == MPI_REQUEST_NULL ? NULL : find(request);
    taken->use = NOTHING;
    if (!known || !known->active)
        return;
    *taken = *known;
    if (known->use == PERSISTENT) {
        known->active = 0;
    } else if (__builtin_expect(known->behind != NULL, 0)) {
        later *next = known->behind;
        known->sent = next->sent;
        known->received = next->received;
        known->behind = next->next;
        free(next);
        taken->behind = NULL;
    } else {
        erase(known);
    }
}

static inline void put_back_locked(const entry *taken) {
    if (taken->use == NOTHING)
        return;
    entry *known = find(taken->request);
    if (known && known->use == PERSISTENT)
        known->active = 1;
    else
        remember_locked(taken);
}

/* Add the bytes of an operation that has completed; there is a status if it is a receive. */
static inline void add_completed(const entry *taken, const MPI_Status *status, uint64_t *sent, uint64_t *received) {
    int cancelled = 0;
    if (taken->use == NOTHING)
        return;
    if (status && __atomic_load_n(&cancels_seen, __ATOMIC_RELAXED))
        PMPI_Test_cancelled(status, &cancelled);
    if (cancelled)
        return;
    *sent += taken->sends_at_start ? 0 : taken->sent;
    *received += taken->received + (taken->receives ? bytes_received_by(status) : 0);
}

/* Start a persistent request: the bytes that this sends. */
static inline uint64_t start(MPI_Request request, uint32_t *comm_size) {
    uint64_t bytes = 0;
    lock_requests();
    entry *known = find(request);
    if (known) {
        known->active = 1;
        bytes = known->sends_at_start ? known->sent : 0;
        if (known->comm_size > *comm_size)
            *comm_size = known->comm_size;
    }
    unlock_requests();
    return bytes;
}

/* ---- several requests at once */

enum { FEW = 32 };

typedef struct batch {
    int count;
    entry *taken;
    MPI_Status *statuses; /* the caller's, or room of our own if he wants none */
    entry few_taken[FEW];
    MPI_Status few_statuses[FEW];
} batch;

/* Statuses are only needed by receives, and to see what was cancelled. */
static inline void take_all(batch *this, int count, const MPI_Request *requests, MPI_Status *statuses) {
    int needs_statuses = __atomic_load_n(&cancels_seen, __ATOMIC_RELAXED);
    this->count = count > 0 ? count : 0;
    this->taken = this->count <= FEW ? this->few_taken : must(malloc((size_t)count * sizeof *this->taken));
    lock_requests();
    for (int i = 0; i < this->count; i++) {
        take_locked(requests[i], &this->taken[i]);
        needs_statuses |= this->taken[i].use && this->taken[i].receives;
    }
    unlock_requests();
    this->statuses = statuses;
    if (statuses == MPI_STATUSES_IGNORE && needs_statuses)
        this->statuses =
            this->count <= FEW ? this->few_statuses : must(malloc((size_t)count * sizeof *this->statuses));
}

static inline void put_back(batch *this, int which) {
    lock_requests();
    put_back_locked(&this->taken[which]);
    unlock_requests();
    this->taken[which].use = NOTHING;
}

static inline void put_back_all(batch *this) {
    lock_requests();
    for (int i = 0; i < this->count; i++)
        put_back_locked(&this->taken[i]);
    unlock_requests();
}

static inline void drop(batch *this, const MPI_Status *statuses) {
    if (this->taken != this->few_taken)
        free(this->taken);
    if (this->statuses != statuses && this->statuses != this->few_statuses)
        free(this->statuses);
}

#endif
